"""The stack of this data centre: its config filled in, and Pulumi's own command line run on it.

What is in git stays as it is: `stacks/Pulumi.lab.yaml` is copied into the data centre's state, and the copy gets the
hosts' keys, the users' keys and the secrets. `python -m lab.stack up | preview | refresh | destroy | env`.
"""

from __future__ import annotations

import os
import secrets
import shlex
import shutil
import sys
from collections.abc import Mapping
from itertools import takewhile
from pathlib import Path
from typing import Any, cast

from ruamel.yaml import YAML

from lab.machines.inventory import MACHINE_IP, ONCALL_PORT, load_inventory
from lab.machines.ssh import make_key
from lab.paths import Paths, paths_from_environment
from lab.pulumi_run import release_dead_locks, run
from lab.rack.config import more_secrets, on_bare_metal
from lab.toolchain.paths import REPOSITORY
from lab.toolchain.progress import step

STACK = "lab"
ONCALL_URL = f"http://{MACHINE_IP}:{ONCALL_PORT}/hook"
DISKS = ("home", "slurmctld", "mariadb")
"""Folders on the common disk that the stack's file names; a file server's would be there as well."""
COLD = "cold-spares"
"""A file of this name beside the filled-in config: its pools keep cold spares, not warm ones as by default."""
ALL_SERVE = "all-serve"
"""Likewise: every host of its pools serves, and none is a spare."""
Document = dict[str, Any]


class StackError(Exception):
    """Pulumi ended with an error, or the preview found changes; the message is the end of what it said."""


def folder(paths: Paths) -> Path:
    """State, passphrase and filled-in config."""
    return paths.state / "pulumi"


def user_key(paths: Paths, user: str) -> Path:
    """A user's private SSH key; made where there is none."""
    return paths.state / "users" / user / "id_ed25519"


def environment(paths: Paths) -> dict[str, str]:
    """What Pulumi's command line needs, beside a PATH with the toolchain on it."""
    return {
        "PULUMI_BACKEND_URL": f"file://{folder(paths) / 'backend'}?metadata=skip",
        "PULUMI_CONFIG_PASSPHRASE_FILE": str(folder(paths) / "passphrase"),
        "PULUMI_HOME": str(folder(paths) / "home"),
        "PULUMI_SKIP_UPDATE_CHECK": "true",
        "PULUMI_DISABLE_AUTOMATIC_PLUGIN_ACQUISITION": "true",
        "PYTHONPATH": str(REPOSITORY),
        "SPAREWHEEL_LAB_STATE": str(paths.state),
    }


def config_file(paths: Paths) -> Path:
    return folder(paths) / "project" / "stacks" / f"Pulumi.{STACK}.yaml"


def choose(paths: Paths, *, warm_spares: bool, all_serve: bool = False) -> None:
    """How the pools keep spares, from the next `up` on; remembered in the data centre's state."""
    folder(paths).mkdir(parents=True, exist_ok=True)
    for name, wanted in ((COLD, not warm_spares), (ALL_SERVE, all_serve)):
        mark = folder(paths) / name
        if wanted:
            mark.touch()
        else:
            mark.unlink(missing_ok=True)


def spares_as_chosen(config: Document, chosen: Path) -> None:
    """What the marks in the folder ``chosen`` say of the pools' spares."""
    for pool in config["sparewheel:pools"]:
        if (chosen / COLD).exists():
            pool["warm_spares"] = False
        if (chosen / ALL_SERVE).exists():
            pool["size"], pool["spares"] = pool["size"] + pool.get("spares", 0), 0


def render_config(paths: Paths | None = None) -> Path:
    """Fill in what only this data centre knows; returns the file for `--config-file`. Secrets are kept as they are."""
    paths = paths or paths_from_environment()
    target = config_file(paths)
    yaml = YAML(typ="rt")
    document = _read(yaml, REPOSITORY / "stacks" / f"Pulumi.{STACK}.yaml")
    before = _read(yaml, target) if target.exists() else {}
    keys = _host_keys(paths)
    on_bare_metal(document["config"], load_inventory(paths.state), keys)
    fill_in(document["config"], keys, _user_keys(paths, document["config"]))
    shorten_grace(document["config"], _own_grace(paths))
    spares_as_chosen(document["config"], folder(paths))
    _keep_secrets(before, document)
    _make_project(paths)
    with target.open("w", encoding="utf-8") as file:
        yaml.dump(document, file)  # pyright: ignore[reportUnknownMemberType]
    _make_stack(paths)
    _set_secrets(paths, before)
    return target


def fill_in(config: Document, host_keys: Mapping[str, str], user_keys: Mapping[str, str]) -> None:
    """Host keys by host name (`power` for the power switch), users' public keys by user name."""
    for pool in config["sparewheel:pools"]:
        backend = pool["backend"]
        for machine in backend.get("machines", []):
            machine["ssh"]["host_key"] = host_keys[machine["name"]]
        if "power" in backend:
            backend["power"]["ssh"]["host_key"] = host_keys["power"]
    for user in config["sparewheel:users"]:
        user["ssh_keys"] = [user_keys[user["name"]]]


def shorten_grace(config: Document, own: Path) -> None:
    """The grace that the last `up` was told, where it was told one: previews then see what was built."""
    if own.exists():
        config["sparewheel:slurm"]["grace_seconds"] = int(own.read_text("ascii"))


def _own_grace(paths: Paths) -> Path:
    return folder(paths) / "grace_seconds"


def _keep_grace(own: Path, grace_seconds: int | None) -> None:
    own.unlink(missing_ok=True)
    if grace_seconds is not None:
        own.parent.mkdir(parents=True, exist_ok=True)
        own.write_text(str(grace_seconds), "ascii")


def up(paths: Paths | None = None, grace_seconds: int | None = None) -> None:
    """`pulumi up`. ``grace_seconds``: another grace than the stack's file says, for this stack until the next `up`."""
    paths = paths or paths_from_environment()
    _keep_grace(_own_grace(paths), grace_seconds)
    for name in DISKS:
        (paths.common / name).mkdir(exist_ok=True)
    with step("pulumi up: the platform on the data centre's cluster", 110):
        pulumi(paths, "up", "--yes", "--skip-preview")


def preview_no_changes(paths: Paths | None = None) -> None:
    """`pulumi preview --expect-no-changes`; StackError when it finds one."""
    with step("pulumi preview: the stack says the same as its state", 15):
        pulumi(paths or paths_from_environment(), "preview", "--expect-no-changes", aside=True)


def refresh_no_changes(paths: Paths | None = None) -> None:
    """`pulumi refresh --preview-only --expect-no-changes`: the drift check; StackError when it finds drift."""
    with step("pulumi refresh: the cluster says the same as the state", 15):
        pulumi(paths or paths_from_environment(), "refresh", "--preview-only", "--expect-no-changes", aside=True)


def show_preview(paths: Paths) -> None:
    """What the next `up` would change, for a person; changes are no error."""
    with step("pulumi preview", 15):
        text = pulumi(paths, "preview", "--diff")
    print(text)


def show_drift(paths: Paths) -> None:
    """What the cluster has that the state has not, for a person; nothing is written, and drift is no error."""
    with step("pulumi refresh: looking, nothing is written", 15):
        text = pulumi(paths, "refresh", "--preview-only", "--diff")
    print(text)


def destroy(paths: Paths | None = None) -> None:
    """`pulumi destroy`; nothing happens where there is no stack."""
    paths = paths or paths_from_environment()
    if not (folder(paths) / "backend").exists():
        return
    with step("pulumi destroy: everything of ours off the cluster", 70):
        pulumi(paths, "destroy", "--yes", "--skip-preview")


def outputs(paths: Paths | None = None, *, reveal: bool = False) -> str:
    """The stack's outputs as JSON text."""
    shown = ["--show-secrets"] if reveal else []
    return _run(paths or paths_from_environment(), ["stack", "output", "--json", "--stack", STACK, *shown])


def pulumi(paths: Paths, verb: str, *arguments: str, aside: bool = False) -> str:
    """Run one operation on the stack with the filled-in config; ``aside``: on what others leave of the CPUs."""
    config = render_config(paths)
    return _run(paths, [verb, "--stack", STACK, "--config-file", str(config), *arguments], aside=aside)


def _run(
    paths: Paths,
    arguments: list[str],
    folder_of_project: Path = REPOSITORY,
    stdin: str | None = None,
    *,
    aside: bool = False,
) -> str:
    release_dead_locks(folder(paths) / "backend")
    own_tmp = folder(paths) / "tmp"  # the Kubernetes plugin leaves kubeconfigs there
    own_tmp.mkdir(mode=0o700, parents=True, exist_ok=True)
    env = {**os.environ, **environment(paths), "TMPDIR": str(own_tmp)}
    done = run([*arguments, "--non-interactive", "--color=never"], folder_of_project, env, stdin, aside=aside)
    log = folder(paths) / "log"
    log.mkdir(parents=True, exist_ok=True)
    text = done.out + done.err
    if arguments[0] in {"up", "preview", "refresh", "destroy"}:
        (log / f"{arguments[0]}.log").write_text(text, "utf-8")
    if done.code != 0:
        end = "\n".join(text.strip().splitlines()[-40:])
        words = " ".join(takewhile(lambda word: not word.startswith("-"), arguments))
        raise StackError(f"'pulumi {words}' ended with {done.code}; log in {log}:\n{end}")
    return done.out


def _make_project(paths: Paths) -> None:
    """A project of the same name whose stack file is the copy: making the stack there leaves the checkout alone."""
    project = folder(paths) / "project"
    (project / "stacks").mkdir(parents=True, exist_ok=True)
    (folder(paths) / "backend").mkdir(exist_ok=True)
    shutil.copyfile(REPOSITORY / "Pulumi.yaml", project / "Pulumi.yaml")
    passphrase = folder(paths) / "passphrase"
    if not passphrase.exists():
        passphrase.touch(mode=0o600)
        passphrase.write_text(secrets.token_urlsafe(32))


def _make_stack(paths: Paths) -> None:
    stacks = folder(paths) / "backend" / ".pulumi" / "stacks" / "sparewheel"
    if not any(stacks.glob(f"{STACK}.json*")):
        _run(paths, ["stack", "init", STACK], folder(paths) / "project")


def _set_secrets(paths: Paths, before: Document) -> None:
    known = cast("Document", before.get("config") or {})
    values = {
        "machines-ssh": (paths.ssh / "id_ed25519").read_text(),
        "power-ssh": (paths.ssh / "power_ed25519").read_text(),
        "oncall-url": os.environ.get("SPAREWHEEL_LAB_ONCALL_URL", ONCALL_URL),
    }
    values |= more_secrets(load_inventory(paths.state), values)
    project = folder(paths) / "project"
    for name in [name for name in values if f"sparewheel:{name}" not in known]:
        _run(paths, ["config", "set", "--secret", name, "--stack", STACK], project, stdin=values[name])


def _keep_secrets(before: Document, document: Document) -> None:
    """Encrypted values and their salt from the last time: a new salt would make a new stack of it."""
    if "encryptionsalt" in before:
        document["encryptionsalt"] = before["encryptionsalt"]
    for key, value in cast("Document", before.get("config") or {}).items():
        if isinstance(value, dict) and "secure" in value:
            document["config"][key] = value


def _host_keys(paths: Paths) -> dict[str, str]:
    inventory = load_inventory(paths.state)
    keys = {host.name: paths.host(host.name) / "ssh_host_ed25519_key.pub" for host in inventory.hosts}
    keys["power"] = paths.ssh / "power_host_ed25519.pub"
    return {name: " ".join(path.read_text().split()[:2]) for name, path in keys.items()}


def _user_keys(paths: Paths, config: Document) -> dict[str, str]:
    names = [str(user["name"]) for user in config["sparewheel:users"]]
    return {name: make_key(user_key(paths, name), f"{name}@data-centre") for name in names}


def _read(yaml: YAML, path: Path) -> Document:
    return cast("Document", yaml.load(path.read_text("utf-8")) or {})  # pyright: ignore[reportUnknownMemberType]


def main(arguments: list[str] | None = None) -> None:
    """The verbs by hand."""
    verbs = {"up": up, "preview": show_preview, "refresh": show_drift, "destroy": destroy}
    chosen = (arguments if arguments is not None else sys.argv[1:])[:1]
    paths = paths_from_environment()
    if chosen == ["env"]:
        render_config(paths)
        for name, value in environment(paths).items():
            print(f"export {name}={shlex.quote(value)}")
        print(f"# then: pulumi up --stack {STACK} --config-file {config_file(paths)}")
        return
    if not chosen or chosen[0] not in verbs:
        sys.exit(f"usage: python -m lab.stack {' | '.join([*verbs, 'env'])}")
    try:
        verbs[chosen[0]](paths)
    except (StackError, FileNotFoundError) as error:
        sys.exit(f"error: {error}")


if __name__ == "__main__":
    main()
