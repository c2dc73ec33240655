"""Election by Lease, in virtual time: never two at once, never longer alone than needed."""

from __future__ import annotations

import asyncio
import itertools
import random
from contextlib import suppress
from dataclasses import dataclass, field

import pytest

from sparewheel.kube.lease import LeaseHandle, LeaseLostError, LeaseTiming, WhileWaiting, held
from sparewheel.kube.lease_object import Holder, holder_of
from sparewheel.kube.memory import MemoryKube
from sparewheel.kube.memory_faults import Call
from sparewheel.kube.port import LEASE, InvalidError, Json, Resource, UnavailableError
from tests.support.clocks import LoopClock

pytestmark = pytest.mark.looptime

SPACE = "sparewheel"


@dataclass
class Member:
    """One candidate with its own connection to the shared server."""

    server: MemoryKube
    identity: str
    clock: LoopClock = field(default_factory=LoopClock)
    reign: list[tuple[float, float]] = field(default_factory=list[tuple[float, float]])
    handle: LeaseHandle | None = None
    lost: bool = False
    waited_for: list[Holder] = field(default_factory=list[Holder])

    async def run(self, work_seconds: float = 1e6) -> None:
        started = None
        try:
            async with held(
                self.server,
                "l",
                SPACE,
                self.identity,
                self.clock,
                version="1",
                while_waiting=WhileWaiting(self.waited_for.append),
            ) as handle:
                self.handle = handle
                started = self.clock.monotonic_seconds()
                await self.clock.sleep(work_seconds)
        except LeaseLostError:
            self.lost = True
        finally:
            if started is not None:
                self.reign.append((started, self.clock.monotonic_seconds()))


class CutKube(MemoryKube):
    """A member's view of a shared server through a line that can be cut or hang."""

    def __init__(self, server: MemoryKube) -> None:
        super().__init__(clock=server.clock)
        self._objects, self.server = server._objects, server
        self.cut = False
        self.hang = False

    async def _begin(self, call: Call) -> None:
        hung_at = self.clock.monotonic_seconds()
        while self.hang and self.clock.monotonic_seconds() < hung_at + 15:  # noqa: ASYNC110  # the client's time-out
            await asyncio.sleep(0.25)
        if self.cut or self.hang:
            raise UnavailableError("line cut")
        self._version = self.server._version
        await super()._begin(call)

    def _store(self, resource: Resource, key: tuple[str, str], body: Json, existing: Json | None) -> Json:
        self._version = self.server._version
        stored = super()._store(resource, key, body, existing)
        self.server._version = self._version
        return stored


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
