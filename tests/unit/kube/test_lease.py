"""Election by Lease, in virtual time: never two at once, never longer alone than needed."""

from __future__ import annotations

import asyncio
import itertools
import random
from contextlib import suppress

import pytest

from sparewheel.kube.lease import LeaseHandle, LeaseLostError, LeaseTiming, held
from sparewheel.kube.lease_object import holder_of
from sparewheel.kube.memory import MemoryKube
from sparewheel.kube.port import LEASE, InvalidError, UnavailableError
from tests.support.clocks import LoopClock
from tests.support.lease_members import SPACE, CutKube, Member

pytestmark = pytest.mark.looptime


async def test_a_given_back_lease_is_taken_at_once() -> None:
    server = MemoryKube(clock=LoopClock())
    first, second = Member(server, "a"), Member(server, "b")
    async with asyncio.TaskGroup() as group:
        group.create_task(first.run(10))
        await asyncio.sleep(1)
        group.create_task(second.run(10))
    assert first.reign[0][1] <= second.reign[0][0] <= first.reign[0][1] + 1
    assert {holder.identity for holder in second.waited_for} == {"a"}
    assert await holder_of(server, "l", SPACE) is None


async def test_a_killed_holder_is_succeeded_after_the_duration() -> None:
    server = MemoryKube(clock=LoopClock())
    line = CutKube(server)
    first, second = Member(line, "a"), Member(server, "b")
    task = asyncio.create_task(first.run())
    await asyncio.sleep(1)
    line.cut = True  # kill -9: nothing more comes from it, no release either
    killed_at = first.clock.monotonic_seconds()
    await second.run(5)
    task.cancel()
    assert 7 <= second.reign[0][0] - killed_at <= 9
    body = await server.get(LEASE, "l", SPACE)
    assert body["spec"]["leaseTransitions"] == 1


@pytest.mark.parametrize("how", ["cut", "hang"])
async def test_a_holder_without_a_line_stops_before_another_starts(how: str) -> None:
    server = MemoryKube(clock=LoopClock())
    line = CutKube(server)
    first, second = Member(line, "a"), Member(server, "b")
    async with asyncio.TaskGroup() as group:
        group.create_task(first.run())
        await asyncio.sleep(0.1)
        group.create_task(second.run(30))
        await asyncio.sleep(20)
        setattr(line, how, True)
    assert first.lost
    assert first.reign[0][1] <= 20.1 + 6
    assert first.reign[0][1] + 1 < second.reign[0][0]


async def test_a_short_outage_is_no_loss() -> None:
    server = MemoryKube(clock=LoopClock())
    line = CutKube(server)
    first, second = Member(line, "a"), Member(server, "b")
    task = asyncio.create_task(second_later(second))
    runner = asyncio.create_task(first.run(60))
    await asyncio.sleep(10)
    line.cut = True
    await asyncio.sleep(3.5)
    line.cut = False
    await runner
    task.cancel()
    assert not first.lost
    assert first.reign[0][1] - first.reign[0][0] >= 60
    assert second.reign == []


async def second_later(member: Member) -> None:
    await asyncio.sleep(1)
    await member.run()


async def test_a_renewal_whose_answer_was_lost_is_still_ours() -> None:
    server = MemoryKube(clock=LoopClock())
    member = Member(server, "a")
    task = asyncio.create_task(member.run(30))
    await asyncio.sleep(1)
    server.fail(UnavailableError("answer lost"), "replace", LEASE, when="after")
    await task
    assert not member.lost


async def test_a_lease_taken_by_force_is_lost() -> None:
    server = MemoryKube(clock=LoopClock())
    member = Member(server, "a")
    task = asyncio.create_task(member.run())
    await asyncio.sleep(1)
    await server.merge_patch(LEASE, "l", {"spec": {"holderIdentity": "intruder"}}, SPACE)
    await asyncio.wait_for(task, 4)
    assert member.lost
    assert (await server.get(LEASE, "l", SPACE))["spec"]["holderIdentity"] == "intruder"


async def test_the_handle_refuses_when_its_time_is_over() -> None:
    clock = LoopClock()
    handle = LeaseHandle("l", SPACE, "a", clock, LeaseTiming(), valid_until_seconds=clock.monotonic_seconds() + 6)
    handle.check()
    await asyncio.sleep(6)
    with pytest.raises(LeaseLostError, match="Lease sparewheel/l is no longer held by a"):
        handle.check()


async def test_a_cancel_from_outside_stays_a_cancel_and_gives_back() -> None:
    server = MemoryKube(clock=LoopClock())
    member = Member(server, "a")
    task = asyncio.create_task(member.run())
    await asyncio.sleep(1)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert await holder_of(server, "l", SPACE) is None


async def test_no_permission_is_said_at_once() -> None:
    server = MemoryKube(clock=LoopClock())
    server.fail(InvalidError("403 leases is forbidden"), "create", LEASE)
    with pytest.raises(InvalidError, match="forbidden"):
        await Member(server, "a").run()


@pytest.mark.parametrize("seed", range(6))
async def test_never_two_at_once_whatever_the_lines_do(seed: int) -> None:
    chance = random.Random(seed)
    server = MemoryKube(clock=LoopClock())
    lines = [CutKube(server) for _ in range(3)]
    members = [Member(line, f"m{index}") for index, line in enumerate(lines)]

    async def again(member: Member) -> None:
        while True:
            await member.run(chance.uniform(1, 40))
            await asyncio.sleep(chance.uniform(0, 3))

    async def trouble(line: CutKube) -> None:
        while True:
            await asyncio.sleep(chance.uniform(0, 15))
            line.cut, line.hang = chance.random() < 0.5, chance.random() < 0.3
            await asyncio.sleep(chance.uniform(0, 15))
            line.cut = line.hang = False

    tasks = [asyncio.create_task(again(member)) for member in members]
    tasks += [asyncio.create_task(trouble(line)) for line in lines]
    await asyncio.sleep(250)
    for task in tasks:
        task.cancel()
    with suppress(asyncio.CancelledError):
        await asyncio.gather(*tasks, return_exceptions=True)
    reigns = sorted(reign for member in members for reign in member.reign)
    assert len(reigns) >= 4
    for before, after in itertools.pairwise(reigns):
        assert before[1] <= after[0]


@pytest.mark.parametrize("turns", range(10))
async def test_a_cancel_while_the_lease_is_given_back_stays_a_cancel(turns: int) -> None:
    kube = MemoryKube(clock=LoopClock())

    async def work() -> None:
        async with held(kube, "l", SPACE, "a", LoopClock(), version="1"):
            await asyncio.sleep(1)
        await asyncio.Event().wait()

    task = asyncio.create_task(work())
    await asyncio.sleep(1)  # the block ends in this turn of the loop
    for _ in range(turns):
        await asyncio.sleep(0)
    task.cancel()
    await asyncio.wait({task}, timeout=5)
    assert task.cancelled()
