"""The session with NVML: what fails or hangs is "not evaluated", never healthy, and holds nothing else up."""

from __future__ import annotations

import threading

import pytest

from sparewheel.agent.nvml_source import NvmlPace, NvmlSource
from tests.unit.agent.nvml_fake import FakeNvml, gpu

PACE = NvmlPace(first_answer=0.0)


class Clock:
    def __init__(self) -> None:
        self.seconds = 100.0

    def __call__(self) -> float:
        return self.seconds


@pytest.fixture
def nvml() -> FakeNvml:
    return FakeNvml()


@pytest.fixture
def clock() -> Clock:
    return Clock()


def source_of(nvml: FakeNvml, clock: Clock) -> NvmlSource:
    return NvmlSource(nvml, clock, PACE)


def test_before_the_first_answer_nothing_is_known(nvml: FakeNvml, clock: Clock) -> None:
    reading = source_of(nvml, clock).read()
    assert reading.seen is None
    assert "not answered" in reading.message


def test_all_gpus_with_address_uuid_and_serial(nvml: FakeNvml, clock: Clock) -> None:
    source = source_of(nvml, clock)
    assert source.turn() == 0.0
    reading = source.read()
    assert reading.seen == 8
    assert reading.index_by_pci["0000:18:00"] == 1
    assert (reading.gpus[1].uuid, reading.gpus[1].serial) == ("GPU-1", "161")


def test_a_lost_gpu_is_known_and_not_seen(nvml: FakeNvml, clock: Clock) -> None:
    nvml.devices[3] = gpu(3, lost=True)
    source = source_of(nvml, clock)
    source.turn()
    assert source.read().seen == 7
    assert "0000:1a:00" not in source.read().index_by_pci


@pytest.mark.parametrize("error", ["driver not loaded", "GPU 3 cannot be asked: Unknown Error"])
def test_a_library_that_fails_is_not_evaluated_and_tried_again(nvml: FakeNvml, clock: Clock, error: str) -> None:
    nvml.error = error
    source = source_of(nvml, clock)
    assert source.turn() == PACE.retry
    assert source.read().seen is None
    assert source.read().message == error
    nvml.error = ""
    source.turn()
    assert source.read().seen == 8
    assert nvml.sessions == 1


def test_one_that_hangs_is_not_evaluated_and_holds_nothing_up(nvml: FakeNvml, clock: Clock) -> None:
    nvml.hang = threading.Event()
    source = source_of(nvml, clock).start()
    try:
        assert source.read().seen is None
        clock.seconds += PACE.deadline + 1
        assert "hangs" in source.read().message
        assert source.xids() == []
    finally:
        nvml.hang.set()


def test_one_that_hangs_later_is_not_what_it_was(nvml: FakeNvml, clock: Clock) -> None:
    source = source_of(nvml, clock)
    source.turn()
    clock.seconds += PACE.deadline
    assert source.read().seen == 8
    clock.seconds += 1
    assert source.read().seen is None
    source.turn()
    assert source.read().seen == 8


def test_states_are_read_at_their_pace_events_as_they_come(nvml: FakeNvml, clock: Clock) -> None:
    source = source_of(nvml, clock)
    source.turn()
    nvml.devices = nvml.devices[:6]
    nvml.events.extend([(79, "0000:17:00"), (31, "0000:18:00")])
    source.turn()
    source.turn()
    assert source.xids() == [(79, "0000:17:00"), (31, "0000:18:00")]
    assert source.xids() == []
    assert source.read().seen == 8
    clock.seconds += PACE.read_every
    source.turn()
    assert source.read().seen == 6


def test_a_pause_closes_the_session_and_opens_it_again(nvml: FakeNvml, clock: Clock) -> None:
    """A GPU that anybody holds open cannot be reset."""
    paused = False
    source = NvmlSource(nvml, clock, PACE, paused=lambda: paused)
    source.turn()
    assert nvml.open
    paused = True
    source.turn()
    assert not nvml.open
    assert source.read().seen is None
    assert "reset" in source.read().message
    paused = False
    source.turn()
    assert nvml.open
    assert source.read().seen == 8
