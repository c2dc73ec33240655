"""`pool add`: the new pool is there, all else is as it was, and what can't be right is refused."""

from __future__ import annotations

import errno
import re
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import yaml

from sparewheel.pools import NewMachine, NewPool, PoolError, add_pool, parse_machine, parse_selector
from stacks.config import parse

KEY = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIAABAgMEBQYHCAkKCwwNDg8QERITFBUWFxgZGhscHR4f"
FILE = """\
# The file's own comment.
config:
  sparewheel:slurm:
    version: "26.05"   # quoted, or 26.10 becomes 26.1
    extra_conf:
      - A=1
  sparewheel:pools:
    # The first pool.
    - name: gpu
      size: 2
      spares: 1
      cpus: "96"
      partition: {default: true}
      replace: [gpu-1]
      backend:
        kind: machines
        key_ref: machines-ssh   # a secret of the stack
        machines:
          - {name: gpu-1, ssh: {address: 10.0.0.1, host_key: HOST-KEY}}
  sparewheel:remediation:
    dry_run: false # last line
""".replace("HOST-KEY", KEY)
POOL = NewPool("big", size=1, machines=[NewMachine("big-1", "10.0.1.1", KEY)])


@pytest.fixture
def path(tmp_path: Path) -> Path:
    file = tmp_path / "Pulumi.test.yaml"
    file.write_text(FILE)
    return file


def pools(path: Path) -> list[dict[str, Any]]:
    return yaml.safe_load(path.read_text())["config"]["sparewheel:pools"]


def test_every_line_that_was_there_is_still_there_and_in_place(path: Path) -> None:
    add_pool(path, POOL)
    lines, old = path.read_text().splitlines(), FILE.splitlines()
    assert lines[:19] == old[:19]
    assert lines[-2:] == old[-2:]


def test_the_new_pool(path: Path) -> None:
    add_pool(path, POOL)
    assert pools(path)[1] == {
        "name": "big",
        "size": 1,
        "spares": 0,
        "backend": {
            "kind": "machines",
            "key_ref": "machines-ssh",
            "machines": [{"name": "big-1", "ssh": {"address": "10.0.1.1", "host_key": KEY}}],
        },
    }


def test_like_another_pool_takes_over_settings_but_not_what_is_its_own(path: Path) -> None:
    add_pool(path, replace(POOL, like="gpu"))
    new = pools(path)[1]
    assert new["cpus"] == "96"
    assert [m["name"] for m in new["backend"]["machines"]] == ["big-1"]
    assert "replace" not in new
    assert "partition" not in new, "two default partitions would be refused"


def test_a_pool_of_nodes_that_are_there(path: Path) -> None:
    add_pool(path, NewPool("warm", size=3, spares=1, gpus_per_node=4, node_selector={"class": "h200"}))
    assert pools(path)[1]["backend"] == {"kind": "warm", "node_selector": {"class": "h200"}}
    assert pools(path)[1]["gpus_per_node"] == 4


def test_the_first_pool_of_a_stack(tmp_path: Path) -> None:
    file = tmp_path / "Pulumi.a.yaml"
    file.write_text("config:\n  sparewheel:login: {replicas: 1}\n")
    add_pool(file, POOL)
    assert [p["name"] for p in pools(file)] == ["big"]


def test_a_null_stays_as_it_was_spelt(path: Path) -> None:
    nulls = "  sparewheel:a: null # none\n  sparewheel:b: ~\n  sparewheel:c:\n  sparewheel:d: {e: null}\n"
    path.write_text(FILE.replace("  sparewheel:slurm:\n", nulls + "  sparewheel:slurm:\n"))
    add_pool(path, POOL)
    assert nulls in path.read_text()


def test_nodes_that_another_pool_selects(path: Path) -> None:
    add_pool(path, NewPool("warm", size=3, node_selector={"class": "h200"}))
    text = path.read_text()
    with pytest.raises(PoolError, match="pool warm selects the same nodes"):
        add_pool(path, NewPool("more", size=1, node_selector={"class": "h200", "rack": "a"}))
    assert path.read_text() == text
    add_pool(path, NewPool("more", size=1, node_selector={"class": "h100"}))
    assert [pool["name"] for pool in pools(path)] == ["gpu", "warm", "more"]


@pytest.mark.parametrize(
    ("pool", "says"),
    [
        (replace(POOL, name="gpu"), "a pool gpu already"),
        (replace(POOL, name="Big_1"), "no name for a pool"),
        (replace(POOL, name="1a"), "a letter first"),
        (replace(POOL, name="p" * 41), "at most 40"),
        (replace(POOL, size=2), "need 2 machines"),
        (replace(POOL, size=0), "size is 1 or more"),
        (replace(POOL, machines=[NewMachine("gpu-1", "x", "y")]), "in pool gpu already"),
        (replace(POOL, machines=[*POOL.machines, *POOL.machines], size=2), "given twice"),
        (replace(POOL, machines=()), "either machines or a node selector"),
        (replace(POOL, like="gone"), "no pool gone to be like; pools there: gpu"),
        (replace(POOL, like="gone", machines=()), "no pool gone to be like; pools there: gpu"),
    ],
)
def test_refusals_leave_the_file_alone(path: Path, pool: NewPool, says: str) -> None:
    with pytest.raises(PoolError, match=says):
        add_pool(path, pool)
    assert path.read_text() == FILE
    assert list(path.parent.iterdir()) == [path]


def test_a_file_that_is_no_stack(tmp_path: Path) -> None:
    file = tmp_path / "Pulumi.a.yaml"
    file.write_text("- 1\n")
    with pytest.raises(PoolError, match="has no 'config:'"):
        add_pool(file, POOL)


def test_the_stack_takes_what_was_added(path: Path) -> None:
    """The file's form is written in two places: here and in the stack's model. They agree."""
    add_pool(path, replace(POOL, like="gpu"))
    with pytest.raises(Exception, match="wrong in the stack's config") as caught:
        parse({"pools": pools(path)})
    assert "pools.1" not in str(caught.value)


def test_arguments_of_the_command_line() -> None:
    assert parse_machine("gpu-4, 10.0.0.4, ssh-ed25519 AAAA") == NewMachine("gpu-4", "10.0.0.4", "ssh-ed25519 AAAA")
    assert parse_selector("class=h200") == ("class", "h200")


@pytest.mark.parametrize(
    ("content", "says"),
    [
        (b"\x80\xff", "is no text"),
        (b"config: [", "is no YAML"),
        (b"config: {'sparewheel:pools': [3]}", "incomplete"),
        (b"config: {'sparewheel:pools': [{backend: {machines: [x]}}]}", "incomplete"),
    ],
)
def test_a_file_that_cannot_be_read_as_one(tmp_path: Path, content: bytes, says: str) -> None:
    file = tmp_path / "Pulumi.a.yaml"
    file.write_bytes(content)
    with pytest.raises(PoolError, match=says) as caught:
        add_pool(file, POOL)
    assert "\n" not in str(caught.value)
    assert file.read_bytes() == content


@pytest.mark.parametrize("empty", ["", " null", " []"])
def test_a_key_without_pools_is_filled(tmp_path: Path, empty: str) -> None:
    file = tmp_path / "Pulumi.a.yaml"
    file.write_text(f"config:\n  sparewheel:pools:{empty}\n")
    add_pool(file, POOL)
    assert [pool["name"] for pool in pools(file)] == ["big"]


def test_a_full_disk_leaves_the_file_as_it_was(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(_descriptor: int) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr("sparewheel.pools.os.fsync", full)
    with pytest.raises(PoolError, match="No space left on device; it is as it was"):
        add_pool(path, POOL)
    assert path.read_text() == FILE
    assert list(path.parent.iterdir()) == [path]


def test_a_link_stays_a_link(path: Path) -> None:
    link = path.with_name("Pulumi.link.yaml")
    link.symlink_to(path.name)
    add_pool(link, POOL)
    assert link.is_symlink()
    assert [pool["name"] for pool in pools(path)] == ["gpu", "big"]


@pytest.mark.parametrize(("parse_it", "text"), [(parse_machine, "gpu-4,10.0.0.4"), (parse_selector, "class")])
def test_arguments_that_are_wrong(parse_it: Callable[[str], object], text: str) -> None:
    with pytest.raises(PoolError, match=re.escape(repr(text))):
        parse_it(text)
