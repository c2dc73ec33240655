"""The last save, with ranks that are slow, dead, or die on the way; on a clock of the test's own."""

from __future__ import annotations

import socket
from collections.abc import Callable
from pathlib import Path

import pytest

from training.resumable.attempt import Attempt
from training.resumable.checkpoint import Checkpoints, Snapshot
from training.resumable.fence import FencedError
from training.resumable.rescue import STALL_SECONDS, save_alone, save_together

ATTEMPT = Attempt(7, 0)
SNAPSHOT = Snapshot(20, b"state " * 50, {})


class StepClock:
    """Goes on only while somebody waits; `at` makes others act meanwhile."""

    def __init__(self) -> None:
        self.seconds = 0.0
        self._later: list[tuple[float, Callable[[], object]]] = []

    def at(self, seconds: float, action: Callable[[], object]) -> None:
        self._later.append((seconds, action))

    def now(self) -> float:
        return self.seconds

    def wait(self, seconds: float) -> None:
        self.seconds += seconds
        due = [action for at, action in self._later if at <= self.seconds]
        self._later = [(at, action) for at, action in self._later if at > self.seconds]
        for action in due:
            action()


@pytest.fixture
def store(tmp_path: Path) -> Checkpoints:
    return Checkpoints(tmp_path, ATTEMPT)


@pytest.fixture
def clock() -> StepClock:
    return StepClock()


def grow(path: Path) -> None:
    """What somebody who writes looks like from outside."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("ab") as file:
        file.write(b"x")


def test_a_slow_peer_is_waited_for(store: Checkpoints, clock: StepClock) -> None:
    part = store.folder(20, "all") / "shard-00001-of-00002.bin.part-other-1"
    for second in range(0, 60, 2):
        clock.at(second, lambda: grow(part))
    clock.at(60, lambda: store.write_shard(SNAPSHOT, 1, 2))
    assert save_together(store, SNAPSHOT, 0, 2, give_up_at=115, clock=clock)
    assert 60 <= clock.now() < 61


def test_the_shard_of_a_dead_peer_is_filled_in(store: Checkpoints, clock: StepClock) -> None:
    assert save_together(store, SNAPSHOT, 0, 2, give_up_at=115, clock=clock)
    assert STALL_SECONDS <= clock.now() < STALL_SECONDS + 1
    found = store.newest()
    assert found is not None
    assert found.snapshot == SNAPSHOT


def test_a_peer_that_dies_in_the_middle_is_filled_in(store: Checkpoints, clock: StepClock) -> None:
    part = store.folder(20, "all") / "shard-00001-of-00002.bin.part-other-1"
    for second in range(0, 30, 2):
        clock.at(second, lambda: grow(part))
    assert save_together(store, SNAPSHOT, 0, 2, give_up_at=115, clock=clock)
    assert 28 + STALL_SECONDS <= clock.now() < 28 + STALL_SECONDS + 1


def test_waiting_ends_with_the_grace(store: Checkpoints, clock: StepClock) -> None:
    part = store.folder(20, "all") / "shard-00001-of-00002.bin.part-other-1"
    for second in range(0, 200, 2):
        clock.at(second, lambda: grow(part))
    assert not save_together(store, SNAPSHOT, 0, 2, give_up_at=115, clock=clock)
    assert 115 <= clock.now() < 116
    assert store.newest() is None


def test_a_periodic_save_of_the_same_step_is_used(store: Checkpoints, clock: StepClock) -> None:
    for rank in range(2):
        store.write_shard(SNAPSHOT, rank, 2)
    store.publish(20, 2)
    before = store.signs_of_writing(20, "all")
    assert save_together(store, SNAPSHOT, 0, 2, give_up_at=115, clock=clock)
    assert save_alone(store, SNAPSHOT, 1, give_up_at=115, clock=clock)
    assert store.signs_of_writing(20, "all") == before
    assert store.tags(20) == ["all"]


def test_a_survivor_saves_the_whole_state(store: Checkpoints, clock: StepClock) -> None:
    assert save_alone(store, SNAPSHOT, 0, give_up_at=115, clock=clock)
    assert clock.now() == 0
    found = store.newest()
    assert found is not None
    assert found.snapshot == SNAPSHOT


def test_a_second_survivor_on_the_host_leaves_it_to_the_first(store: Checkpoints, clock: StepClock) -> None:
    host = socket.gethostname()
    part = store.folder(20, host) / "shard-00000-of-00001.bin.part-x"
    for second in range(30):
        clock.at(second * 0.9, lambda: grow(part))

    def done() -> None:
        store.write_shard(SNAPSHOT, 0, 1, tag=host)
        store.publish(20, 1, tag=host)

    clock.at(30, done)
    assert save_alone(store, SNAPSHOT, 1, give_up_at=115, clock=clock)
    assert 30 <= clock.now() < 31


def test_a_second_survivor_takes_over_from_a_first_that_died(store: Checkpoints, clock: StepClock) -> None:
    grow(store.folder(20, socket.gethostname()) / "shard-00000-of-00001.bin.part-x")
    assert save_alone(store, SNAPSHOT, 1, give_up_at=115, clock=clock)
    assert STALL_SECONDS <= clock.now() < STALL_SECONDS + 2


def test_two_hosts_write_and_a_third_waits(store: Checkpoints, clock: StepClock) -> None:
    for second in range(20):
        for host in ("a", "b"):
            clock.at(second, lambda host=host: grow(store.folder(20, host) / "shard-00000-of-00001.bin.part-x"))

    def done() -> None:
        store.write_shard(SNAPSHOT, 0, 1, tag="b")
        store.publish(20, 1, tag="b")

    clock.at(20, done)
    assert save_alone(store, SNAPSHOT, 2, give_up_at=115, clock=clock)
    assert 20 <= clock.now() < 21
    assert store.tags(20) == ["a", "b"]


def test_one_other_host_is_not_enough(store: Checkpoints, clock: StepClock) -> None:
    """It may be the struck one."""
    for second in range(20):
        clock.at(second, lambda: grow(store.folder(20, "a") / "shard-00000-of-00001.bin.part-x"))
    clock.wait(0)
    assert save_alone(store, SNAPSHOT, 2, give_up_at=115, clock=clock)
    assert clock.now() < 2
    assert store.is_whole(20, socket.gethostname())


def test_a_survivor_of_an_older_attempt_is_refused(store: Checkpoints, clock: StepClock, tmp_path: Path) -> None:
    store.fence.take()
    Checkpoints(tmp_path, Attempt(7, 1)).fence.take()
    with pytest.raises(FencedError):
        save_alone(store, SNAPSHOT, 0, give_up_at=115, clock=clock)
    with pytest.raises(FencedError):
        save_together(store, SNAPSHOT, 0, 2, give_up_at=115, clock=clock)
