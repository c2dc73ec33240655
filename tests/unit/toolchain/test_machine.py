"""What the machine must bring, and its own programs where they will do."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from lab.toolchain import machine, onpath
from lab.toolchain.errors import ToolchainError
from lab.toolchain.tools import PROFILES, Tool

TOOLS = {tool.name: tool for tool in PROFILES["lab"]}


def program(folder: Path, name: str, says: str) -> Path:
    """A program that only says something."""
    folder.mkdir(exist_ok=True)
    path = folder / name
    path.write_text(f"#!/bin/sh\necho '{says}'\n")
    path.chmod(0o755)
    return path


@pytest.fixture
def own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder on the PATH, with nothing else there."""
    monkeypatch.setenv("SPAREWHEEL_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("PATH", f"{tmp_path / 'cache' / 'bin'}{os.pathsep}{tmp_path / 'own'}")
    return tmp_path / "own"


@pytest.mark.parametrize(
    ("name", "says", "accepted"),
    [
        ("etcd", "etcd Version: 3.6.4", True),
        ("etcd", "etcd Version: 3.4.23", False),
        ("kubelet", "Kubernetes v1.36.0", True),
        ("kubelet", "Kubernetes v1.37.2", False),
        ("containerd", "containerd github.com/containerd/containerd/v2 v2.2.1 abcdef", True),
        ("containerd", "containerd github.com/containerd/containerd 1.6.20~ds1 1.6.20~ds1-1+b1", False),
        ("pulumi", "v3.274.1", True),
        ("pulumi", "no version at all", False),
    ],
)
def test_the_machines_own_program_is_used_in_an_accepted_version(
    own: Path, name: str, says: str, accepted: bool
) -> None:
    path = program(own, name, says)
    assert onpath.accepted(TOOLS[name], {}) == (path if accepted else None)


def test_a_program_of_our_own_cache_is_not_the_machines(own: Path, tmp_path: Path) -> None:
    (tmp_path / "cache").mkdir()
    program(tmp_path / "cache" / "bin", "etcd", "etcd Version: 3.7.3")
    assert onpath.accepted(TOOLS["etcd"], {}) is None


def test_what_comes_with_a_program_is_used_with_it_only(own: Path) -> None:
    host: Tool = TOOLS["pulumi-language-python"]
    path = program(own, "pulumi-language-python", "anything")
    assert onpath.accepted(host, {}) is None
    assert onpath.accepted(host, {"pulumi": program(own, "pulumi", "v3.274.1")}) == path


@pytest.mark.parametrize(
    ("release", "good"),
    [
        ('ID=debian\nVERSION_ID="12"\n', True),
        ('ID=debian\nVERSION_ID="13"\n', True),
        ('ID=debian\nPRETTY_NAME="Debian GNU/Linux forky/sid"\n', True),
        ('ID=debian\nVERSION_ID="11"\nPRETTY_NAME="Debian GNU/Linux 11 (bullseye)"\n', False),
        ('ID=ubuntu\nVERSION_ID="24.04"\nPRETTY_NAME="Ubuntu 24.04"\n', False),
    ],
)
def test_debian_twelve_or_newer(tmp_path: Path, release: str, good: bool) -> None:
    file = tmp_path / "os-release"
    file.write_text(release)
    if good:
        machine.require_debian(file)
        return
    with pytest.raises(ToolchainError, match=r"needs Debian 12 or newer and this machine runs"):
        machine.require_debian(file)


def test_a_missing_go_says_how_to_get_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "/nonexistent")
    monkeypatch.setattr(machine, "_GO_PLACES", ())
    with pytest.raises(ToolchainError, match=r"Go 1\.26 or newer is needed .* isn't on the PATH: get it from"):
        machine.find_go()
