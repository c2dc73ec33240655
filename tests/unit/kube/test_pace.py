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
    await pace.turn()
    sent.append((pace.clock.monotonic_seconds(), urgency))


async def all_of(pace: Pace, wanted: list[Urgency]) -> list[tuple[float, Urgency]]:
    sent: list[tuple[float, Urgency]] = []
    await asyncio.gather(*(send(pace, urgency, sent) for urgency in wanted))
    return sent


@pytest.mark.looptime
async def test_the_bucket_goes_at_once_and_the_rest_at_the_pace() -> None:
    pace = Pace(LoopClock(), per_second=10, burst=5)
    sent = await all_of(pace, [Urgency.NORMAL] * 15)
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
    await pace.turn()
    waiting = asyncio.create_task(pace.turn())
    await asyncio.sleep(0)
    waiting.cancel()
    await asyncio.gather(waiting, return_exceptions=True)
    await pace.turn()
    assert pace.sent == 2
    assert pace.clock.monotonic_seconds() == pytest.approx(1.0, abs=0.05)  # pyright: ignore[reportUnknownMemberType]


@settings(max_examples=30, deadline=None)
@given(st.lists(st.sampled_from(list(Urgency)), min_size=1, max_size=60), st.integers(1, 50), st.integers(1, 20))
def test_no_second_sees_more_than_the_pace_and_the_bucket(wanted: list[Urgency], per_second: int, burst: int) -> None:
    sent = asyncio.run(all_of(Pace(YieldingClock(), per_second, burst), wanted))
    times = [at for at, urgency in sent if urgency is not Urgency.LEASE]
    assert len(sent) == len(wanted)
    for start in times:
        assert sum(start <= at < start + 1 for at in times) <= per_second + burst


def test_a_pace_that_sends_nothing_is_refused() -> None:
    with pytest.raises(ValueError, match="sends nothing"):
        Pace(LoopClock(), per_second=0, burst=1)
