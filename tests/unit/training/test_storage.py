"""A disk that is full for a while: what could not be written is written later, and nothing half is ever loaded."""

from __future__ import annotations

import errno
import os
from pathlib import Path

import pytest

from training.resumable import files, progress
from training.resumable.attempt import Attempt
from training.resumable.checkpoint import Checkpoints, Snapshot
from training.resumable.progress import Step, StepLog, read_steps
from training.resumable.rescue import save_alone, save_together
from training.resumable.storage import RETRY_SECONDS, until_stored

ATTEMPT = Attempt(7, 0)
OLD, NEW = Snapshot(20, b"state " * 50, {}), Snapshot(40, b"later " * 50, {})
STEP = Step(0, 1, 0.5, "aa", "bb", "2026-01-01T00:00:00.000Z")
FULL = OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


class StepClock:
    """Goes on only while somebody waits."""

    def __init__(self) -> None:
        self.seconds = 0.0

    def now(self) -> float:
        return self.seconds

    def wait(self, seconds: float) -> None:
        self.seconds += seconds


class Disk:
    """Files that take ``room`` bytes until ``clock`` reads ``until``: then nothing more, as a full disk does."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, clock: StepClock, until: float, room: int = 0) -> None:
        self.room, self.clock, self.until = room, clock, until
        self._fsync = os.fsync
        monkeypatch.setattr(files.os, "fsync", self.fsync)

    def fsync(self, descriptor: int) -> None:
        """ext4 and NFS may tell of a full disk only here."""
        if self.clock.now() < self.until:
            self.room -= os.fstat(descriptor).st_size
            if self.room < 0:
                raise FULL
        self._fsync(descriptor)


@pytest.fixture
def clock() -> StepClock:
    return StepClock()


@pytest.fixture
def store(tmp_path: Path) -> Checkpoints:
    found = Checkpoints(tmp_path, ATTEMPT)
    found.write_shard(OLD, 0, 1)
    assert found.publish(OLD.step, 1)
    return found


def test_a_state_is_saved_once_there_is_room(
    store: Checkpoints, clock: StepClock, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    Disk(monkeypatch, clock, until=30)
    assert until_stored(lambda: save_together(store, NEW, 0, 1, 115, clock), 115, clock, "step 40")
    assert 30 <= clock.now() <= 30 + RETRY_SECONDS
    found = store.newest()
    assert found is not None
    assert found.snapshot == NEW
    assert capsys.readouterr().out.count("step 40 waits for the storage") == 1


def test_waiting_ends_with_the_grace_and_the_older_checkpoint_counts(
    store: Checkpoints, clock: StepClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    Disk(monkeypatch, clock, until=1000)
    assert not until_stored(lambda: save_alone(store, NEW, 0, 115, clock), 115, clock, "step 40")
    assert 115 - RETRY_SECONDS <= clock.now() <= 115 + RETRY_SECONDS
    found = store.newest()
    assert found is not None
    assert found.snapshot == OLD


@pytest.mark.parametrize("room", [1, 300, 400, 480, 600])
def test_wherever_the_room_ends_nothing_half_is_loaded(
    store: Checkpoints, clock: StepClock, monkeypatch: pytest.MonkeyPatch, room: int
) -> None:
    """Within the shard, its side file, or the manifest."""
    disk = Disk(monkeypatch, clock, until=1000, room=room)
    with pytest.raises(OSError, match="No space"):
        save_together(store, NEW, 0, 1, 115, clock)
    assert disk.room < 0
    found = store.newest()
    assert found is not None
    assert found.snapshot == OLD
    assert store.warnings == []


def test_what_is_refused_to_the_end_is_an_error(clock: StepClock) -> None:
    def write() -> None:
        raise FULL

    with pytest.raises(OSError, match="No space"):
        until_stored(write, 115, clock, "attempt 1")
    assert 115 - RETRY_SECONDS <= clock.now() <= 115


def test_a_wrong_path_is_told_at_once(clock: StepClock) -> None:
    def write() -> None:
        raise PermissionError(errno.EACCES, "Permission denied", "/runs")

    with pytest.raises(PermissionError):
        until_stored(write, 115, clock, "attempt 0")
    assert clock.now() == 0


def test_a_full_disk_costs_lines_of_the_step_log_only(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "steps.jsonl"
    log = StepLog(path)
    real = os.write
    answers = ["whole", "part", "full", "full", "whole"]

    def write(descriptor: int, line: bytes) -> int:
        answer = answers.pop(0)
        if answer == "full":
            raise FULL
        return real(descriptor, line if answer == "whole" else line[:10])

    monkeypatch.setattr(progress.os, "write", write)
    for number in range(1, 6):
        log.append(Step(0, number, 0.5, "aa", "bb", "then"))
    assert sorted(read_steps(path)) == [1, 5]
    assert capsys.readouterr().out.count("isn't in the step log") == 1


def test_a_new_attempt_begins_behind_a_line_that_was_cut_short(tmp_path: Path) -> None:
    path = tmp_path / "steps.jsonl"
    path.write_text('{"attempt":0,"st')
    StepLog(path).append(STEP)
    assert read_steps(path) == {1: STEP}


def test_a_save_that_found_no_room_leaves_its_room_to_the_next(store: Checkpoints) -> None:
    """One rank's share fitted and the other's did not. What a survivor saves alone is not touched."""
    store.write_shard(NEW, 0, 2)
    store.write_shard(NEW, 0, 1, tag="host-a")
    assert store.tags(NEW.step) == ["all", "host-a"]
    store.write_shard(Snapshot(60, b"last " * 50, {}), 0, 2)
    assert store.tags(60) == ["all"]
    assert store.tags(NEW.step) == ["host-a"]
    found = store.newest()
    assert found is not None
    assert found.snapshot == OLD, "whole ones stay"
