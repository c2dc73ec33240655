"""A checkpoint is whole or it isn't one, whoever is killed when; an older attempt can't harm a newer one."""

from __future__ import annotations

import itertools
import json
import multiprocessing
import os
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from training.resumable.attempt import Attempt
from training.resumable.checkpoint import MANIFEST, Checkpoints, ReplicasDifferError, Snapshot
from training.resumable.fence import Fence, FencedError
from training.resumable.files import Pace

FIRST, SECOND, THIRD = Attempt(7, 0), Attempt(7, 1), Attempt(7, 2)
KILLED = 9


def snapshot(step: int, payload: bytes | None = None) -> Snapshot:
    return Snapshot(
        step, payload if payload is not None else f"state after {step} ".encode() * 20, {"history": f"h{step}"}
    )


@pytest.fixture
def memory() -> Iterator[Path]:
    """A folder in memory: hundreds of runs with their fsyncs would keep a disk busy."""
    with tempfile.TemporaryDirectory(dir="/dev/shm") as folder:
        yield Path(folder)


def save(store: Checkpoints, step: int, world_size: int = 2) -> None:
    for rank in range(world_size):
        store.write_shard(snapshot(step), rank, world_size)
    assert store.publish(step, world_size)


def newest_step(run_dir: Path, attempt: Attempt) -> int | None:
    found = Checkpoints(run_dir, attempt).newest()
    if found is None:
        return None
    assert found.snapshot == snapshot(found.snapshot.step)
    return found.snapshot.step


def start(run_dir: Path, attempt: Attempt) -> int | None:
    """What rank 0 does at the start of an attempt; the step it resumes from."""
    store = Checkpoints(run_dir, attempt)
    store.fence.take()
    found = store.newest()
    store.fence.record_start(found.snapshot.step if found else 0)
    return found.snapshot.step if found else None


@given(payload=st.binary(max_size=300), world_size=st.integers(1, 9))
@settings(max_examples=40, deadline=None)
def test_what_any_number_of_ranks_saves_any_rank_can_load(
    tmp_path_factory: pytest.TempPathFactory, payload: bytes, world_size: int
) -> None:
    store = Checkpoints(tmp_path_factory.mktemp("run"), FIRST)
    for rank in reversed(range(world_size)):
        assert not store.publish(5, world_size)
        store.write_shard(snapshot(5, payload), rank, world_size)
    assert store.publish(5, world_size)
    found = store.newest()
    assert found is not None
    assert (found.attempt, found.snapshot) == (FIRST, snapshot(5, payload))


def unaware(_fence: Fence) -> None:
    """What a fence looks like through a stale cache: nobody newer there."""


FRESH = multiprocessing.get_context("forkserver")
"""Forked from a small process without threads: quick, and nothing of the test run is copied."""
FRESH.set_forkserver_preload(["__main__", __name__])


def kill_at(point: int, action: Callable[[Path, Pace], None], run_dir: Path) -> bool:
    """Run `action` in a process that is killed at its `point`-th step of writing. False: it ended before that."""
    process = FRESH.Process(target=run_until, args=(point, action, run_dir))
    process.start()
    process.join()
    assert process.exitcode in {0, KILLED}
    return process.exitcode == KILLED


def run_until(point: int, action: Callable[[Path, Pace], None], run_dir: Path) -> None:
    left = point

    def count(_done: int = 0, _total: int = 0) -> None:
        nonlocal left
        if left == 0:
            os._exit(KILLED)
        left -= 1

    def counted(function: Callable[..., object]) -> Callable[..., object]:
        def call(*arguments: object, **named: object) -> object:
            count()
            result = function(*arguments, **named)
            count()
            return result

        return call

    for owner, name in (
        (os, "fsync"),
        (Path, "rename"),
        (Path, "mkdir"),
        (Path, "unlink"),
        (os, "unlink"),
        (os, "rmdir"),
    ):
        setattr(owner, name, counted(getattr(owner, name)))
    action(run_dir, count)


def save_another(run_dir: Path, pace: Pace) -> None:
    save(Checkpoints(run_dir, FIRST, pace=pace), 20)


def remove_older(run_dir: Path, _pace: Pace) -> None:
    Checkpoints(run_dir, FIRST).prune(keep=2)


def test_a_save_killed_at_any_point_leaves_the_old_checkpoint_or_the_new_one(memory: Path) -> None:
    seen: set[int | None] = set()
    for points in itertools.count(1):
        run_dir = memory / str(points)
        save(Checkpoints(run_dir, FIRST), 10)
        killed = kill_at(points - 1, save_another, run_dir)
        step = newest_step(run_dir, FIRST)
        assert step in {10, 20}
        seen.add(step)
        if killed:  # whoever comes next goes on over the remains
            save(Checkpoints(run_dir, FIRST), 20)
            assert newest_step(run_dir, FIRST) == 20
        else:
            assert points > 100
            break
    assert seen == {10, 20}


def test_a_removal_killed_at_any_point_leaves_the_newest(memory: Path) -> None:
    for points in itertools.count(1):
        run_dir = memory / str(points)
        for step in (10, 20, 30, 40):
            save(Checkpoints(run_dir, FIRST), step)
        killed = kill_at(points - 1, remove_older, run_dir)
        assert newest_step(run_dir, FIRST) == 40
        assert Checkpoints(run_dir, FIRST).is_whole(30)
        if not killed:
            assert points > 4
            assert not Checkpoints(run_dir, FIRST).folder(20, "all").exists()
            break


@pytest.mark.parametrize("damage", ["truncated", "flipped", "missing", "folder", "other step", "no facts", "empty"])
def test_a_damaged_checkpoint_is_passed_over_with_a_warning(tmp_path: Path, damage: str) -> None:
    store = Checkpoints(tmp_path, FIRST)
    save(store, 10)
    save(store, 20)
    folder = store.folder(20, "all")
    shard = folder / "shard-00001-of-00002.bin"
    content = shard.read_bytes()
    match damage:
        case "truncated":
            shard.write_bytes(content[:-1])
        case "flipped":
            shard.write_bytes(content[:-1] + bytes([content[-1] ^ 1]))
        case "missing":
            shard.unlink()
        case "folder":
            (folder / MANIFEST).unlink()
            (folder / MANIFEST).mkdir()
        case "other step" | "no facts":
            manifest = json.loads((folder / MANIFEST).read_bytes())
            manifest |= {"step": 30} if damage == "other step" else {"facts": None}
            (folder / MANIFEST).write_text(json.dumps(manifest))
        case _:
            (folder / MANIFEST).write_bytes(b"")
    found = store.newest()
    assert found is not None
    assert found.snapshot.step == 10
    assert len(store.warnings) == 1
    assert str(folder) in store.warnings[0]


def test_a_fenced_attempt_can_not_save(tmp_path: Path) -> None:
    old = Checkpoints(tmp_path, FIRST)
    old.fence.take()
    save(old, 10)
    assert start(tmp_path, SECOND) == 10
    with pytest.raises(FencedError, match="job-7-attempt-1 has taken over"):
        old.write_shard(snapshot(20), 0, 1)
    assert not old.folder(20, "all").exists()


def test_a_slow_save_ends_when_a_newer_attempt_starts(tmp_path: Path) -> None:
    written: list[int] = []

    def pace(done: int, _total: int) -> None:
        written.append(done)
        if len(written) == 3:
            start(tmp_path, SECOND)

    old = Checkpoints(tmp_path, FIRST, pace=pace)
    old.fence.take()
    with pytest.raises(FencedError):
        old.write_shard(snapshot(20), 0, 1)
    assert len(written) == 3
    assert old.missing(20, 1) == [0]


def test_a_newer_attempt_between_shards_and_manifest_refuses_the_manifest(tmp_path: Path) -> None:
    old = Checkpoints(tmp_path, FIRST)
    old.fence.take()
    old.write_shard(snapshot(20), 0, 1)
    start(tmp_path, SECOND)
    with pytest.raises(FencedError):
        old.publish(20, 1)
    assert newest_step(tmp_path, THIRD) is None


def test_what_slips_through_the_fence_never_counts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    old = Checkpoints(tmp_path, FIRST)
    old.fence.take()
    save(old, 10)
    assert start(tmp_path, SECOND) == 10
    with monkeypatch.context() as stale:  # a file system cache that doesn't show the new fence yet
        stale.setattr(Fence, "check", unaware)
        save(old, 30)
    save(Checkpoints(tmp_path, SECOND), 12)
    assert newest_step(tmp_path, SECOND) == 12
    assert newest_step(tmp_path, THIRD) == 12


def test_an_attempt_never_loads_a_newer_ones_checkpoint(tmp_path: Path) -> None:
    save(Checkpoints(tmp_path, FIRST), 10)
    save(Checkpoints(tmp_path, SECOND), 20)
    assert newest_step(tmp_path, FIRST) == 10


def test_an_attempt_without_a_checkpoint_of_its_own_hands_the_old_one_on(tmp_path: Path) -> None:
    save(Checkpoints(tmp_path, FIRST), 10)
    assert [start(tmp_path, attempt) for attempt in (SECOND, THIRD)] == [10, 10]


def test_ranks_with_different_states_are_told_apart(tmp_path: Path) -> None:
    store = Checkpoints(tmp_path, FIRST)
    for rank in range(3):
        store.write_shard(snapshot(20, b"odd" if rank == 1 else b"even"), rank, 3)
    with pytest.raises(ReplicasDifferError, match=r"step 20 .*odd ones: \[1\]"):
        store.publish(20, 3)
    assert store.newest() is None


def test_older_attempts_go_only_when_this_one_has_enough(tmp_path: Path) -> None:
    save(Checkpoints(tmp_path, FIRST), 10)
    store = Checkpoints(tmp_path, SECOND)
    start(tmp_path, SECOND)
    save(store, 20)
    store.prune(keep=2)
    assert Checkpoints(tmp_path, FIRST).is_whole(10)
    save(store, 30)
    store.prune(keep=2)
    assert not Checkpoints(tmp_path, FIRST).is_whole(10)
    assert store.is_whole(20)


def test_a_full_disk_is_an_error_and_leaves_no_remains(tmp_path: Path) -> None:
    def full(_done: int, _total: int) -> None:
        raise OSError(28, "No space left on device")

    store = Checkpoints(tmp_path, FIRST, pace=full)
    with pytest.raises(OSError, match="No space left"):
        store.write_shard(snapshot(20), 0, 1)
    assert list(store.folder(20, "all").iterdir()) == []
