"""Election by Lease through an API server that answers late or not at all, in virtual time."""

from __future__ import annotations

import asyncio

import pytest

from sparewheel.kube.lease import WhileWaiting, held
from sparewheel.kube.memory import MemoryKube
from sparewheel.kube.memory_faults import Call
from sparewheel.kube.port import LEASE, UnavailableError
from tests.support.clocks import LoopClock
from tests.support.lease_members import SPACE, Member

pytestmark = pytest.mark.looptime


class SlowKube(MemoryKube):
    """Whose answers take their time, request by request; after the last of them it is quick."""

    def __init__(self, *, verb: str, seconds: list[float]) -> None:
        super().__init__(clock=LoopClock())
        self.verb, self.seconds = verb, seconds

    async def _begin(self, call: Call) -> None:
        if call.verb == self.verb and self.seconds:
            await asyncio.sleep(self.seconds.pop(0))
        await super()._begin(call)


async def test_a_renewal_that_hangs_is_no_loss_while_the_next_is_answered() -> None:
    """A dead connection: the client's own time-out is longer than the Lease."""
    server = SlowKube(verb="replace", seconds=[15.0])
    member = Member(server, "a")
    await member.run(30)
    assert not member.lost
    assert member.reign[0][1] - member.reign[0][0] >= 30


async def test_a_server_that_answers_slowly_renews_all_the_same() -> None:
    server = SlowKube(verb="replace", seconds=[2.5] * 40)
    member = Member(server, "a")
    await member.run(30)
    assert not member.lost


async def test_renewals_that_all_hang_end_the_reign_in_time() -> None:
    server = SlowKube(verb="replace", seconds=[15.0] * 40)
    member = Member(server, "a")
    await member.run(30)
    assert member.lost
    assert member.reign[0][1] - member.reign[0][0] <= 6


async def test_a_look_that_hangs_does_not_keep_a_successor_waiting() -> None:
    server = SlowKube(verb="get", seconds=[])
    first, second = Member(server, "a"), Member(server, "b")
    task = asyncio.create_task(first.run(10))
    await asyncio.sleep(5)
    waiting = asyncio.create_task(second.run(1))
    await asyncio.sleep(4.8)
    server.seconds = [15.0]
    await asyncio.gather(task, waiting)
    assert second.reign[0][0] - first.reign[0][1] <= 7


async def test_a_lease_that_was_taken_and_the_answer_lost_is_held_at_once() -> None:
    server = MemoryKube(clock=LoopClock())
    server.fail(UnavailableError("answer lost"), "create", LEASE, when="after")
    member = Member(server, "a")
    await member.run(10)
    assert member.reign[0][0] <= 1


@pytest.mark.parametrize("how", ["refused", "hangs"])
async def test_a_look_that_is_not_answered_is_told(how: str) -> None:
    """Whoever takes the lead right after an outage must know that there was one."""
    server = SlowKube(verb="get", seconds=[100.0] if how == "hangs" else [])
    if how == "refused":
        server.fail(UnavailableError("no answer"), "get", LEASE, times=3)
    silences: list[float] = []
    clock = LoopClock()
    told = WhileWaiting(silence=lambda: silences.append(clock.monotonic_seconds()))
    began = clock.monotonic_seconds()
    async with held(server, "l", SPACE, "a", clock, version="1", while_waiting=told):
        assert len(silences) == (1 if how == "hangs" else 3)
        assert clock.monotonic_seconds() - began <= 7
