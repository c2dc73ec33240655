"""Pulumi killed in the middle, and wrong settings, on the running platform. Opt-in.

SPAREWHEEL_TROUBLE_TESTS=1 python -m pytest tests/lab/test_trouble_pulumi.py
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from ruamel.yaml import YAML

from lab import stack
from lab.paths import Paths
from lab.pulumi_run import Done, release_dead_locks, run
from lab.toolchain.paths import REPOSITORY
from tests.lab.platform import GRACE_SECONDS
from tests.lab.waiting import eventually

pytestmark = [
    pytest.mark.timeout(600),
    pytest.mark.skipif(os.environ.get("SPAREWHEEL_TROUBLE_TESTS") != "1", reason="needs SPAREWHEEL_TROUBLE_TESTS=1"),
]


def arguments(verb: str, config: Path) -> list[str]:
    given = [verb, "--stack", stack.STACK, "--config-file", str(config), "--non-interactive", "--color=never"]
    return [*given, "--yes", "--skip-preview"] if verb == "up" else given


def pulumi(paths: Paths, verb: str, config: Path) -> Done:
    return run(arguments(verb, config), REPOSITORY, {**os.environ, **stack.environment(paths)})


def locks(paths: Paths) -> list[Path]:
    return list((stack.folder(paths) / "backend" / ".pulumi" / "locks").glob("**/*.json"))


def other_grace(paths: Paths, seconds: int, target: Path) -> Path:
    """A copy of the filled-in settings whose next `up` has something to do."""
    yaml = YAML(typ="rt")
    document = yaml.load(stack.config_file(paths).read_text("utf-8"))  # pyright: ignore[reportUnknownMemberType]
    document["config"]["sparewheel:slurm"]["grace_seconds"] = seconds
    with target.open("w", encoding="utf-8") as file:
        yaml.dump(document, file)  # pyright: ignore[reportUnknownMemberType]
    return target


@pytest.mark.parametrize("moment", ["a resource has begun", "locked"])
def test_an_up_that_is_killed_is_continued_by_the_next(lab_paths: Paths, tmp_path: Path, moment: str) -> None:
    paths = lab_paths
    release_dead_locks(stack.folder(paths) / "backend")
    config = other_grace(paths, GRACE_SECONDS + 1, tmp_path / "Pulumi.lab.yaml")
    out = tmp_path / "out"
    with out.open("w") as file:
        process = subprocess.Popen(
            ["pulumi", *arguments("up", config)],
            cwd=REPOSITORY, env={**os.environ, **stack.environment(paths)}, stdin=subprocess.DEVNULL, stdout=file,
            stderr=subprocess.STDOUT, start_new_session=True,
        )  # fmt: skip
        try:

            def reached() -> bool:
                assert process.poll() is None, out.read_text("utf-8")
                return bool(locks(paths)) if moment == "locked" else "updating" in out.read_text("utf-8")

            eventually(reached, 120, lambda: out.read_text("utf-8"))
        finally:
            process.kill()
            process.wait()
    for pid in session(process.pid):  # Pulumi's language host outlives a killed Pulumi, idle
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
    assert locks(paths), "it was killed too late"
    refused = pulumi(paths, "up", config)
    assert refused.code != 0
    assert "pulumi cancel" in refused.out + refused.err
    assert release_dead_locks(stack.folder(paths) / "backend")
    stack.up(paths, grace_seconds=GRACE_SECONDS)
    assert locks(paths) == []
    stack.preview_no_changes(paths)
    stack.refresh_no_changes(paths)


def session(leader: int) -> list[int]:
    """What still runs of the session that the killed process led."""
    found: list[int] = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            with suppress(OSError):
                if os.getsid(int(entry.name)) == leader:
                    found.append(int(entry.name))
    return found


Change = Callable[[dict[str, Any]], object]
WRONG: list[tuple[str, Change, str]] = [
    ("size", lambda c: c["sparewheel:pools"][0].update(size=3), "pools.0:"),
    ("typo", lambda c: c["sparewheel:slurm"].update(grace_secnds=30), "slurm.grace_secnds"),
    ("key", lambda c: c["sparewheel:users"][0].update(ssh_keys=["not a key"]), "users.0.ssh_keys"),
    ("missing", lambda c: c.pop("sparewheel:images"), "images:"),
    ("secret", lambda c: c["sparewheel:remediation"]["routes"][0].update(url_secret="no-such"), "url_secret:"),
    ("address", lambda c: c["sparewheel:pools"][0]["backend"]["machines"][1].pop("ssh"), "machines.1.ssh:"),
    ("kubeconfig", lambda c: c["sparewheel:cluster"].update(command="false"), "running 'false'"),
    ("area", lambda c: c.update({"sparewheel:pool": c.pop("sparewheel:pools")}), "did you mean pools?"),
    ("years", lambda c: c["sparewheel:pools"][0].update(drain_deadline_seconds=10**15), "drain_deadline_seconds:"),
    ("overlap", lambda c: c["sparewheel:storage"]["home"].update(path="/srv/common"), "in the folder of home"),
    ("folder", lambda c: c.update(
        {"sparewheel:cluster": {"kind": "existing", "kubeconfig_path": "/etc"}}), "cat: /etc: Is a directory"),
    ("garbage", lambda c: c["sparewheel:cluster"].update(command="echo hello"), "no complete kubeconfig"),
]  # fmt: skip


RECORDED = {"garbage": ("cluster-kubeconfig",)}
"""Commands that end well."""


@pytest.mark.parametrize(
    ("change", "named", "recorded"), [pytest.param(c, n, RECORDED.get(i, ()), id=i) for i, c, n in WRONG]
)
def test_a_wrong_setting_is_one_clear_error_and_nothing_changes(
    lab_paths: Paths, tmp_path: Path, change: Change, named: str, recorded: tuple[str, ...]
) -> None:
    paths = lab_paths
    yaml = YAML(typ="rt")
    document = yaml.load(stack.config_file(paths).read_text("utf-8"))  # pyright: ignore[reportUnknownMemberType]
    change(document["config"])
    config = tmp_path / "Pulumi.lab.yaml"
    with config.open("w", encoding="utf-8") as file:
        yaml.dump(document, file)  # pyright: ignore[reportUnknownMemberType]
    before = resources(paths)
    done = pulumi(paths, "up", config)
    said = (done.out + done.err).partition("Diagnostics:")[2]
    assert done.code != 0, done.out
    assert said.count(named) == 1, said
    assert "Traceback" not in said
    changed = {urn.rpartition("::")[2] for urn, *_ in set(before) ^ set(resources(paths))}
    assert changed <= set(recorded), "what a command printed is known, and nothing is made by it"
    assert locks(paths) == []


def resources(paths: Paths) -> list[tuple[str, str, str]]:
    """What the state says of each resource; secrets are encrypted anew by each run, so they are left out."""
    environment = {**os.environ, **stack.environment(paths)}
    done = run(["stack", "export", "--stack", stack.STACK], stack.folder(paths) / "project", environment)
    assert done.code == 0, done.err
    known = json.loads(done.out)["deployment"]["resources"]
    return [(one["urn"], one.get("id", ""), one.get("modified", "")) for one in known]
