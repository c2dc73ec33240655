"""Builds into the cache: keyed by their pins, whole or not at all, with errors that say what to do."""

from __future__ import annotations

import dataclasses
import os
from pathlib import Path

import pytest

from lab.cluster.programs import CONTROL_PROGRAMS, HOST_PROGRAMS
from lab.machines.own_programs import SOURCES
from lab.toolchain import build
from lab.toolchain.errors import ToolchainError
from lab.toolchain.paths import scratch_folder, store_folder
from lab.toolchain.tools import PROFILES, Tool

GO = """#!/bin/sh
case "$1" in
version) echo 'go version {version} linux/amd64'; exit 0 ;;
esac
{build}
"""
WRITES_OUTPUT = 'while [ "$1" != -o ]; do shift; done; mkdir -p "$(dirname "$2")"; echo built > "$2"'
FILLS_THE_DISK = f"{WRITES_OUTPUT}; echo 'write $2: no space left on device' >&2; exit 1"
HAS_NO_NETWORK = "echo 'dial tcp: lookup example.invalid: no such host' >&2; exit 1"


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("SPAREWHEEL_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache"


@pytest.fixture
def etcd() -> Tool:
    return next(tool for tool in PROFILES["lab"] if tool.name == "etcd")


def use_go(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, does: str, version: str = "go1.26.8") -> None:
    """Put a Go on the PATH that only does as told."""
    program = tmp_path / "go-bin" / "go"
    program.parent.mkdir()
    program.write_text(GO.format(version=version, build=does))
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{program.parent}{os.pathsep}/usr/bin{os.pathsep}/bin")


def left_over() -> list[Path]:
    """What lies in the store or among half-done work."""
    return [path for folder in (store_folder(), scratch_folder()) if folder.exists() for path in folder.iterdir()]


def test_a_build_is_put_in_place_and_not_made_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, etcd: Tool
) -> None:
    use_go(tmp_path, monkeypatch, WRITES_OUTPUT)
    first = build.build(etcd)
    assert first.read_text() == "built\n"
    (tmp_path / "go-bin" / "go").unlink()
    assert build.build(etcd) == first


def test_a_full_disk_leaves_nothing_half_done(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, etcd: Tool) -> None:
    use_go(tmp_path, monkeypatch, FILLS_THE_DISK)
    with pytest.raises(ToolchainError, match=r"Building etcd stopped because the disk is full"):
        build.build(etcd)
    assert left_over() == []


def test_no_network_is_said_as_such(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, etcd: Tool) -> None:
    use_go(tmp_path, monkeypatch, HAS_NO_NETWORK)
    with pytest.raises(ToolchainError, match=r"needs the network and couldn't reach it .*no such host"):
        build.build(etcd)
    assert left_over() == []


def test_an_old_go_is_named_with_its_version(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, etcd: Tool) -> None:
    use_go(tmp_path, monkeypatch, WRITES_OUTPUT, version="go1.19.8")
    with pytest.raises(ToolchainError, match=r"Go 1\.26 or newer is needed .* is go1\.19"):
        build.build(etcd)


def test_the_key_follows_what_decides_the_result(etcd: Tool) -> None:
    same = dataclasses.replace(etcd, expected_seconds=1, accepted=None)
    other = dataclasses.replace(etcd, values=(("main.version", "9"),))
    pinned_otherwise = dataclasses.replace(etcd, module="lab/toolchain/go/cni")
    assert build.key(same) == build.key(etcd)
    assert len({build.key(etcd), build.key(other), build.key(pinned_otherwise)}) == 3


def test_a_link_is_moved_to_a_new_target(tmp_path: Path, cache: Path) -> None:
    for name in ("old", "new"):
        (tmp_path / name).write_text(name)
        build.link("cni/tool", tmp_path / name)
        assert (cache / "bin" / "cni" / "tool").read_text() == name


def test_the_data_centre_finds_all_its_programs() -> None:
    provided = {tool.name for tool in PROFILES["lab"]} | set(SOURCES)
    assert set(CONTROL_PROGRAMS) | set(HOST_PROGRAMS) <= provided
