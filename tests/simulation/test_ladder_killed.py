"""kill -9 before and after every write of an incident that climbs the ladder: no rung twice, and it ends."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from typing import Literal

import pytest

from sparewheel.api.enums import NodeActionKind
from sparewheel.api.faults import Action
from sparewheel.api.ladder import LadderRule, Rung, RungResult
from sparewheel.api.names import ANNOTATION_NODE_ACTION
from tests.support.job_reports import reported_attempt
from tests.support.ladder_play import REBOOT, RESET, ladder_world
from tests.support.mortal import Life, mortal_controller
from tests.support.node_helpers import Helpers
from tests.support.world import World, until

SHORT = LadderRule(rungs=[Rung(kind=RESET, timeout_seconds=30), Rung(kind=REBOOT, timeout_seconds=75)])
Ends = Literal["reset", "reboot", "replace"]
MENDS: dict[Ends, set[NodeActionKind]] = {"reset": {RESET}, "reboot": {REBOOT}, "replace": set()}
DONE: dict[Ends, list[str]] = {
    "reset": ["gpu-1: reset 0000:03:00"],
    "reboot": ["gpu-1: reset 0000:03:00", "gpu-1: reboot"],
    "replace": ["gpu-1: reset 0000:03:00", "gpu-1: reboot"],
}


async def play(ends: Ends, life: Life) -> tuple[World, Helpers]:
    """The incident under a leader that may die, and a standby that takes over."""
    world = ladder_world(SHORT, grace_seconds=6)
    helpers = Helpers(world, mends=MENDS[ends])
    leader = mortal_controller(world, life, "first")
    tasks = [asyncio.create_task(world.run()), asyncio.create_task(leader.run())]
    try:
        await until(leader.leading)
        tasks.append(asyncio.create_task(world.controller("second").run()))
        job = world.submit()
        await until(lambda: reported_attempt(job) == 0)
        await asyncio.sleep(12)
        world.break_gpu("gpu-1", code="XID 119", action=Action.RESET_GPU)
        await through(world, life, tasks[1])
    finally:
        for task in tasks:
            task.cancel()
        for task in tasks:
            with suppress(asyncio.CancelledError):
                await task
    return world, helpers


async def through(world: World, life: Life, first: asyncio.Task[None]) -> None:
    def over() -> bool:
        if life.dead.is_set():
            first.cancel()
        return world.told_all()

    async with asyncio.timeout(400):
        while not over():  # noqa: ASYNC110 - the world has no event for everything
            await asyncio.sleep(0.5)
    await asyncio.sleep(2)  # Slinky's operator takes back its own drain after an uncordon


def check(ends: Ends, world: World, helpers: Helpers) -> None:
    record, job = world.record(), world.slurm.job_table[7]
    assert helpers.done == DONE[ends], "each rung once, and only what was needed"
    results = [rung.result for rung in record.status.ladder.rungs]
    helped = RungResult.SUCCEEDED if ends != "replace" else RungResult.TIMED_OUT
    assert results == [*[RungResult.TIMED_OUT] * (len(DONE[ends]) - 1), helped]
    assert job.restart_count == 1, "the job was struck once, and came back once"
    assert record.status.jobs[0].resumed_at is not None
    assert not any(node.down or node.drain for node in world.slurm.node_table.values())
    kinds = [event["event"] for event in world.receiver.events.values()]
    assert sorted(kinds) == ["incident.closed", "incident.detected", "job.resumed"], "each told once"
    hosts = [host.phase for host in world.capacity.hosts.values()]
    if ends == "replace":
        assert hosts == ["Quarantined", "Active", "Active"]
        return
    assert hosts == ["Active", "Active", "Spare"]
    assert world.capacity.log == [], "no spare was touched"
    body = world.node("gpu-1")
    assert not body["spec"].get("unschedulable")
    assert ANNOTATION_NODE_ACTION not in body["metadata"]["annotations"]


ENDS: tuple[Ends, ...] = ("reset", "reboot", "replace")


@pytest.mark.timeout(900)
@pytest.mark.parametrize("when", ["before", "after"])
@pytest.mark.parametrize("ends", ENDS)
async def test_killed_at_writes_from_first_to_last(ends: Ends, when: Literal["before", "after"]) -> None:
    undisturbed = Life()
    check(ends, *await play(ends, undisturbed))
    assert len(undisturbed.writes) > 15
    failures: list[str] = []
    every = 3 if ends == "reset" else 12
    for index, write in list(enumerate(undisturbed.writes))[::every]:
        try:
            check(ends, *await play(ends, Life(die_at=index, when=when)))
        except (AssertionError, TimeoutError) as error:
            failures.append(f"killed {when} write {index} ({write}): {type(error).__name__} {str(error)[:1500]}")
    assert not failures, "\n".join(failures)
