"""The data centre's stack file: what is filled in, and that the filled-in file is a right one."""

from __future__ import annotations

import base64
import copy
from pathlib import Path
from typing import Any

import pytest
import yaml

from lab import stack
from lab.machines.inventory import MACHINE_IP, ONCALL_PORT
from lab.paths import Paths
from lab.stack import fill_in, shorten_grace
from lab.toolchain.paths import REPOSITORY
from stacks.config import ConfigError, StackConfig, parse


def public_key(number: int) -> str:
    body = b"".join(len(part).to_bytes(4, "big") + part for part in (b"ssh-ed25519", bytes([number] * 32)))
    return f"ssh-ed25519 {base64.b64encode(body).decode()}"


HOSTS = {name: public_key(number) for number, name in enumerate(("gpu-1", "gpu-2", "gpu-3", "power"))}
USERS: dict[str, str] = dict.fromkeys(("alice", "bob"), f"{public_key(9)} made-here")


@pytest.fixture
def config() -> dict[str, Any]:
    return yaml.safe_load((REPOSITORY / "stacks/Pulumi.lab.yaml").read_text())["config"]


def read(config: dict[str, Any]) -> StackConfig:
    return parse({key.removeprefix("sparewheel:"): value for key, value in config.items()})


def test_filled_in_it_is_a_right_stack(config: dict[str, Any]) -> None:
    fill_in(config, HOSTS, USERS)
    stack = read(config)
    assert [m.ssh.host_key for m in stack.pools[0].backend.machines] == [HOSTS[f"gpu-{n}"] for n in (1, 2, 3)]  # pyright: ignore[reportAttributeAccessIssue,reportUnknownMemberType,reportUnknownVariableType]
    assert stack.users[0].ssh_keys == [USERS["alice"]]


def test_as_it_is_in_git_it_has_no_keys_and_says_so(config: dict[str, Any]) -> None:
    with pytest.raises(ConfigError, match=r"users\.0\.ssh_keys"):
        read(config)


def test_a_pool_that_was_added_is_filled_in_too(config: dict[str, Any]) -> None:
    machine = {"name": "gpu-4", "ssh": {"address": "10.77.0.24", "host_key": "made by lab-up"}}
    config["sparewheel:pools"].append(
        {"name": "more", "size": 1, "backend": {"kind": "machines", "key_ref": "machines-ssh", "machines": [machine]}}
    )
    fill_in(config, {**HOSTS, "gpu-4": "ssh-ed25519 gpu-4"}, USERS)
    assert config["sparewheel:pools"][1]["backend"]["machines"][0]["ssh"]["host_key"] == "ssh-ed25519 gpu-4"


def test_a_grace_of_its_own_holds_only_where_the_last_up_was_told_one(config: dict[str, Any], tmp_path: Path) -> None:
    fill_in(config, HOSTS, USERS)
    own = tmp_path / "grace_seconds"
    shorten_grace(config, own)
    assert read(config).slurm.grace_seconds == 120
    own.write_text("30")
    shorten_grace(config, own)
    assert read(config).slurm.grace_seconds == 30


@pytest.mark.parametrize(("told", "left"), [(30, "30"), (None, None)])
def test_each_up_decides_the_grace_anew(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, told: int | None, left: str | None
) -> None:
    paths = Paths(tmp_path / "state", tmp_path / "run", tmp_path / "cache")
    for name in stack.DISKS:
        (paths.common / name).mkdir(parents=True)
    own = stack.folder(paths) / "grace_seconds"
    own.parent.mkdir(parents=True)
    own.write_text("45")
    seen: list[str | None] = []

    def ran(_paths: Paths, _verb: str, *_arguments: str, **_options: bool) -> str:
        seen.append(own.read_text() if own.exists() else None)
        return ""

    monkeypatch.setattr(stack, "pulumi", ran)
    stack.up(paths, grace_seconds=told)
    stack.preview_no_changes(paths)
    assert seen == [left, left]


@pytest.mark.parametrize("verb", ["preview", "refresh"])
def test_a_person_is_shown_the_changes_and_they_are_no_error(
    verb: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def ran(_paths: Paths, *arguments: str) -> str:
        return f"~ {' '.join(arguments)}"

    monkeypatch.setattr(stack, "pulumi", ran)
    monkeypatch.setenv("SPAREWHEEL_LAB_STATE", str(tmp_path))
    stack.main([verb])
    shown = capsys.readouterr().out
    assert shown.startswith(f"~ {verb} ")
    assert "expect-no-changes" not in shown
    assert "preview" in shown, "nothing is written"


def test_what_was_chosen_of_the_spares_holds_until_it_is_chosen_anew(config: dict[str, Any], tmp_path: Path) -> None:
    paths = Paths(tmp_path / "state", tmp_path / "run", tmp_path / "cache")
    fill_in(config, HOSTS, USERS)

    def pool() -> tuple[int, int, bool]:
        chosen = copy.deepcopy(config)
        stack.spares_as_chosen(chosen, stack.folder(paths))
        found = read(chosen).pools[0]
        return found.size, found.spares, found.keeps_warm_spares

    assert pool() == (2, 1, True), "as every stack that says nothing"
    stack.choose(paths, warm_spares=True, all_serve=True)
    assert pool() == (3, 0, False), "plain Slurm's workers wait for no controller of ours"
    stack.choose(paths, warm_spares=False)
    assert pool() == (2, 1, False)
    stack.choose(paths, warm_spares=True)
    assert pool() == (2, 1, True)


def test_messages_go_where_the_demo_and_the_tests_listen() -> None:
    """The port stands once, below the stack and the receiver."""
    written = [path for path in (REPOSITORY / "lab").rglob("*.py") if str(ONCALL_PORT) in path.read_text()]
    assert [path.name for path in written] == ["inventory.py"]
    assert f"http://{MACHINE_IP}:{ONCALL_PORT}/hook" == stack.ONCALL_URL
