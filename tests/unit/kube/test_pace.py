"""Requests leave at the pace, the urgent first; on the loop's own time."""

from __future__ import annotations

import asyncio

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sparewheel.kube.pace import URGENCY, Pace, Urgency
from tests.support.clocks import LoopClock, StillClock


class YieldingClock(StillClock):
    """Time jumps, once everybody who can run has run."""

    async def sleep(self, seconds: float) -> None:
        for _ in range(3):
            await asyncio.sleep(0)
        await super().sleep(seconds)


async def send(pace: Pace, urgency: Urgency, sent: list[tuple[float, Urgency]]) -> None:
    URGENCY.set(urgency)
    async with pace.turn():
        sent.append((pace.clock.monotonic_seconds(), urgency))


async def all_of(pace: Pace, wanted: list[Urgency]) -> list[tuple[float, Urgency]]:
    sent: list[tuple[float, Urgency]] = []
    await asyncio.gather(*(send(pace, urgency, sent) for urgency in wanted))
    return sent


@pytest.mark.looptime
async def test_the_bucket_goes_at_once_and_the_rest_at_the_pace() -> None:
    pace = Pace(LoopClock(), per_second=10, burst=5)
    sent = await all_of(pace, [Urgency.FENCE] * 15)
    assert [round(at, 2) for at, _ in sent][:5] == [0.0] * 5
    assert sent[-1][0] == pytest.approx(1.0, abs=0.05)  # pyright: ignore[reportUnknownMemberType]
    assert pace.sent == 15


@pytest.mark.looptime
async def test_a_lease_waits_for_nobody_and_a_fence_goes_before_the_rest() -> None:
    pace = Pace(LoopClock(), per_second=1, burst=1)
    order = await all_of(pace, [Urgency.NORMAL, Urgency.BACKGROUND, Urgency.NORMAL, Urgency.FENCE, Urgency.LEASE])
    assert [urgency for _, urgency in order] == [
        Urgency.NORMAL, Urgency.LEASE, Urgency.FENCE, Urgency.NORMAL, Urgency.BACKGROUND,
    ]  # fmt: skip
    assert order[1][0] == 0.0


@pytest.mark.looptime
async def test_one_that_was_cancelled_while_it_waited_sends_nothing() -> None:
    pace = Pace(LoopClock(), per_second=1, burst=1)
    sent: list[tuple[float, Urgency]] = []
    await send(pace, Urgency.NORMAL, sent)
    waiting = asyncio.create_task(send(pace, Urgency.NORMAL, sent))
    await asyncio.sleep(0)
    waiting.cancel()
    await asyncio.gather(waiting, return_exceptions=True)
    await send(pace, Urgency.NORMAL, sent)
    assert pace.sent == len(sent) == 2
    assert pace.clock.monotonic_seconds() == pytest.approx(1.0, abs=0.05)  # pyright: ignore[reportUnknownMemberType]


@settings(max_examples=30, deadline=None)
@given(st.lists(st.sampled_from(list(Urgency)), min_size=1, max_size=60), st.integers(1, 50), st.integers(1, 20))
def test_no_second_sees_more_than_the_pace_and_the_bucket(wanted: list[Urgency], per_second: int, burst: int) -> None:
    sent = asyncio.run(all_of(Pace(YieldingClock(), per_second, burst), wanted))
    times = [at for at, urgency in sent if urgency is not Urgency.LEASE]
    assert len(sent) == len(wanted)
    for start in times:
        assert sum(start <= at < start + 1 for at in times) <= per_second + burst


@pytest.mark.parametrize(("per_second", "burst", "in_flight"), [(0, 1, 1), (1, 0, 1), (1, 1, 0)])
def test_a_pace_that_sends_nothing_is_refused(per_second: float, burst: float, in_flight: int) -> None:
    with pytest.raises(ValueError, match="sends nothing"):
        Pace(LoopClock(), per_second, burst, in_flight)


class SlowServer:
    """Answers after a second; knows how many it was busy with at the same time."""

    def __init__(self, pace: Pace) -> None:
        self.pace, self.busy, self.most = pace, 0, 0
        self.answered: list[tuple[float, Urgency]] = []

    async def ask(self, urgency: Urgency, *, fails: bool = False) -> None:
        URGENCY.set(urgency)
        async with self.pace.turn():
            self.busy += 1
            self.most = max(self.most, self.busy)
            try:
                await asyncio.sleep(1)
                if fails:
                    raise OSError("no answer")
                self.answered.append((round(self.pace.clock.monotonic_seconds(), 1), urgency))
            finally:
                self.busy -= 1


@pytest.mark.looptime
async def test_a_slow_server_has_no_more_in_flight_than_allowed_whatever_the_pace() -> None:
    server = SlowServer(Pace(LoopClock(), per_second=1000, burst=1000, in_flight=3))
    await asyncio.gather(*(server.ask(Urgency.NORMAL) for _ in range(9)))
    assert server.most == 3
    assert [at for at, _ in server.answered] == [1.0] * 3 + [2.0] * 3 + [3.0] * 3


@pytest.mark.looptime
async def test_the_urgent_take_the_next_place_and_a_lease_needs_none() -> None:
    server = SlowServer(Pace(LoopClock(), per_second=1000, burst=1000, in_flight=1))
    wanted = [Urgency.NORMAL, Urgency.BACKGROUND, Urgency.NORMAL, Urgency.FENCE, Urgency.LEASE]
    await asyncio.gather(*(server.ask(urgency) for urgency in wanted))
    assert server.answered == [
        (1.0, Urgency.NORMAL), (1.0, Urgency.LEASE), (2.0, Urgency.FENCE), (3.0, Urgency.NORMAL),
        (4.0, Urgency.BACKGROUND),
    ]  # fmt: skip


@pytest.mark.looptime
@pytest.mark.parametrize("cancelled_at", [0.0, 0.5, 1.0, 1.5])
async def test_a_place_is_given_back_by_an_error_and_by_a_cancel(cancelled_at: float) -> None:
    server = SlowServer(Pace(LoopClock(), per_second=1000, burst=1000, in_flight=1))
    works = [asyncio.create_task(server.ask(Urgency.NORMAL, fails=number == 0)) for number in range(3)]
    await asyncio.sleep(cancelled_at)
    works[1].cancel()
    await asyncio.gather(*works, return_exceptions=True)
    await asyncio.wait_for(server.ask(Urgency.NORMAL), 5)
    assert server.most == 1
    assert len(server.answered) == 2


@pytest.mark.looptime
@pytest.mark.parametrize("turns", range(8))
async def test_a_cancel_in_the_turn_of_the_loop_that_gives_the_place_gives_it_back(turns: int) -> None:
    pace = Pace(LoopClock(), per_second=1000, burst=1000, in_flight=1)
    sent: list[tuple[float, Urgency]] = []
    async with pace.turn():
        waiting = asyncio.create_task(send(pace, Urgency.NORMAL, sent))
        await asyncio.sleep(0.01)
    for _ in range(turns):
        await asyncio.sleep(0)
    waiting.cancel()
    await asyncio.gather(waiting, return_exceptions=True)
    await asyncio.wait_for(send(pace, Urgency.NORMAL, sent), 1)


@pytest.mark.looptime
async def test_others_leave_a_fence_its_share_of_the_bucket() -> None:
    """A fence asks Slurm between two requests: what is sent meanwhile may not be what it needs next."""
    pace, sent = Pace(LoopClock(), per_second=10, burst=20), list[tuple[float, Urgency]]()
    others = [asyncio.create_task(send(pace, Urgency.NORMAL, sent)) for _ in range(30)]
    await asyncio.sleep(0)
    assert len(sent) == 11, "all but the share, and what would have been one too many of it"
    await asyncio.gather(*(send(pace, Urgency.FENCE, sent) for _ in range(9)))
    assert pace.clock.monotonic_seconds() < 0.01
    await asyncio.gather(*others)
    assert pace.sent == 39
