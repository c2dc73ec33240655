"""The data centre's stack file: what is filled in, and that the filled-in file is a right one."""

from __future__ import annotations

import base64
from typing import Any

import pytest
import yaml

from lab.stack import fill_in
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
