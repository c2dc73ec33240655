"""A person calls an incident off: what is ours goes, what is done stays, no other incident minds; vetoes that end."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime

import pytest

from sparewheel.api.names import (
    ANNOTATION_REPLACE_REQUEST,
)
from sparewheel.api.remediation import NodeStage, Outcome
from sparewheel.cli.commands.cancel import ask_to_cancel
from sparewheel.cli.common import CommandError
from sparewheel.kube.port import NODE
from sparewheel.slurm.memory import MemoryJob
from tests.support.fake_replacer import FakeHost
from tests.support.mortal import Life, mortal_controller
from tests.support.play import deletions, healed, no_trace, playing, training, waits_for
from tests.support.world import World, until

NOW = datetime(2026, 1, 1, tzinfo=UTC)


async def cancel(world: World, name: str | None = None) -> None:
    await ask_to_cancel(world.kube, name or world.record().metadata.name, "ada", "a false alarm", NOW)


async def test_before_its_first_lines_its_begin_is_told_before_its_end() -> None:
    world, life = World(), Life(die_at=0, when="after")
    async with playing(world, mortal_controller(world, life, "first")):
        world.break_gpu("gpu-1")
        await life.dead.wait()
        await cancel(world)
    async with playing(world):
        await until(lambda: [one["event"] for one in world.receiver.events.values()][-1:] == ["incident.closed"], 30)
        assert [one["event"] for one in world.receiver.events.values()] == ["incident.detected", "incident.closed"]
        assert world.record().status.outcome is Outcome.CANCELLED
        assert [one.name for one in world.record().status.stages] == [NodeStage.DETECTED, NodeStage.CLOSED]
        no_trace(world)


async def test_while_it_waits_for_a_spare() -> None:
    world = World(spares=0)
    async with playing(world):
        await training(world)
        world.break_gpu("gpu-1")
        await until(lambda: "spare" in waits_for(world))
        await cancel(world)
        await until(lambda: world.record().status.outcome is Outcome.CANCELLED, 10)
        status = world.record().status
        assert status.message == "Cancelled by ada at 2026-01-01T00:00:00.000000Z: a false alarm."
        assert status.cancelled_by == "ada at 2026-01-01T00:00:00.000000Z"
        no_trace(world)
        with pytest.raises(CommandError, match="has ended already"):
            await cancel(world)


async def test_in_the_middle_of_the_grace_the_claim_is_given_back() -> None:
    world = World(grace_seconds=60)
    async with playing(world):
        job = await training(world, save_seconds=50.0)
        world.break_gpu("gpu-1")
        await until(lambda: bool(world.records()) and world.record().status.replacement.claimed_at is not None)
        await cancel(world)
        spare = world.capacity.hosts["gpu-3"]
        await until(lambda: (spare.owner, spare.phase) == ("", "Spare"), 10)
        await until(lambda: world.record().status.outcome is Outcome.CANCELLED, 55)
        assert (spare.owner, spare.phase) == ("", "Spare")
        assert deletions(world) == [], "nothing was deleted"
        no_trace(world)
        await until(lambda: job.state == "RUNNING" and job.restart_count == 1)
        await until(lambda: all(one.closed for one in world.record().status.jobs))


# -------------------------------------------------------------------- while struck ranks still run
async def struck_rank(world: World) -> MemoryJob:
    """A job whose rank on the struck node answers no signal."""
    job = await training(world, hangs=True)
    world.break_gpu("gpu-1")
    await until(lambda: "processes still run on gpu-1" in waits_for(world))
    return job


def ranks_end(world: World) -> None:
    for node in world.slurm.node_table.values():
        node.left.clear()


async def runs_anew(world: World, job: MemoryJob) -> None:
    await until(lambda: world.record().status.outcome is Outcome.CANCELLED, 30)
    await until(lambda: job.state == "RUNNING", 10)
    assert job.restart_count == 1
    no_trace(world)
    assert not any(node.drain for node in world.slurm.node_table.values())


@pytest.mark.parametrize("by_uncordon", [True, False])
async def test_no_job_comes_back_to_a_rank_that_hangs(by_uncordon: bool) -> None:
    world = World()
    async with playing(world):
        job = await struck_rank(world)
        if by_uncordon:
            world.uncordon("gpu-1")
        else:
            await cancel(world)
        await until(lambda: "gpu-0 comes back (called off)" in waits_for(world), 5)
        assert "job 7 to end: processes still run on gpu-1; grace ends" in waits_for(world)
        await until(lambda: "after the grace" in waits_for(world), 30)
        await asyncio.sleep(60)
        words = (
            "job 7 to end, after the grace; Slurm node gpu-0 stays down until then, or a person resumes it (called off)"
        )
        assert waits_for(world) == words
        assert len(world.receiver.of("incident.waiting")) == 1, "told once"
        assert (world.slurm.node_table["gpu-0"].down, job.state) == (True, "PENDING")
        assert (deletions(world), world.record().status.replacement.admitted_at) == ([], None)
        assert world.capacity.hosts["gpu-3"].owner == ""
        ranks_end(world)
        await runs_anew(world, job)
        by = world.record().status.cancelled_by
        assert by.startswith("uncordon" if by_uncordon else "ada at ")
        assert world.record().status.message.startswith("Cancelled by ")


async def test_a_silent_agent_is_no_word_that_nobody_is_left() -> None:
    world = World()
    async with playing(world):
        job = await struck_rank(world)
        world.silent.add("gpu-1")
        await cancel(world)
        await until(lambda: waits_for(world).startswith("word of the agent on gpu-1 that no job process is left"), 40)
        await asyncio.sleep(60)
        assert world.slurm.node_table["gpu-0"].down
        ranks_end(world)
        world.silent.discard("gpu-1")
        await runs_anew(world, job)


async def test_a_fault_that_comes_after_the_call_off_is_an_incident_of_its_own() -> None:
    world = World()
    async with playing(world):
        await struck_rank(world)
        await cancel(world)
        await until(lambda: "after the grace" in waits_for(world), 40)
        later = world.break_gpu("gpu-1", gpu=5)
        await asyncio.sleep(20)
        assert world.record().status.more_faults == []
        ranks_end(world)
        await until(lambda: len(world.records()) == 2, 30)
        old, new = sorted(world.records(), key=lambda record: record.spec.fault.first_seen)
        assert (old.status.outcome, new.spec.fault.device) == (Outcome.CANCELLED, later.device)
        await until(lambda: any(record.status.outcome is Outcome.HEALED for record in world.records()), 120)
        assert len(world.records()) == 2, "what was called off stays called off"


async def test_a_person_who_knows_better_resumes_the_slurm_node() -> None:
    world = World()
    async with playing(world):
        job = await struck_rank(world)
        world.silent.add("gpu-1")
        await cancel(world)
        await until(lambda: "after the grace" in waits_for(world), 40)
        ranks_end(world)
        await world.slurm.set_node_state("gpu-0", ["RESUME"], "")
        await runs_anew(world, job)


async def test_a_host_that_is_off_runs_nothing() -> None:
    world = World()
    async with playing(world):
        await struck_rank(world)
        world.lose("gpu-1")
        await cancel(world)
        await until(lambda: world.record().status.outcome is Outcome.CANCELLED, 40)
        assert world.record().status.replacement.proven_off_at is not None


async def test_a_controller_that_takes_over_waits_for_the_rank_too() -> None:
    world = World()
    async with playing(world):
        job = await struck_rank(world)
        await cancel(world)
        await until(lambda: "comes back (called off)" in waits_for(world), 5)
    async with playing(world, world.controller("two")):
        await asyncio.sleep(30)
        assert world.slurm.node_table["gpu-0"].down
        ranks_end(world)
        await runs_anew(world, job)


@pytest.mark.parametrize("by_uncordon", [True, False])
async def test_an_uncordon_in_the_middle_of_the_drain(by_uncordon: bool) -> None:
    """NVSentinel 753: annotations stale after a manual uncordon."""
    world = World(grace_seconds=60)
    async with playing(world):
        await training(world, save_seconds=50.0)
        world.break_gpu("gpu-1")
        await until(lambda: "grace ends" in waits_for(world))
        if by_uncordon:
            world.uncordon("gpu-1")
        else:
            await cancel(world)
        await until(lambda: world.record().status.outcome is Outcome.CANCELLED, 55)
        assert world.record().status.cancelled_by.startswith("uncordon" if by_uncordon else "ada at ")
        assert world.record().status.message.startswith("Cancelled by ")
        no_trace(world)
        assert world.capacity.hosts["gpu-3"].owner == ""


async def test_too_late_is_told_and_changes_nothing() -> None:
    world = World()
    async with playing(world):
        await training(world, save_seconds=0.0)
        world.break_gpu("gpu-1")
        await until(lambda: bool(world.records()) and world.record().status.replacement.worker_deleted_at is not None)
        with pytest.raises(CommandError, match="can't be called off any more: the node's worker pod was deleted"):
            await cancel(world)
        await healed(world)


async def test_the_end_of_an_old_incident_does_not_end_a_new_one() -> None:
    """NVSentinel 1451: cancel of the old incident kills the new one."""
    world = World(spares=0)
    async with playing(world):
        await training(world)
        world.break_gpu("gpu-1")
        await until(lambda: "spare" in waits_for(world))
        old = world.record().metadata.name
        await cancel(world)
        await until(lambda: world.record().status.outcome is Outcome.CANCELLED, 10)
        world.faults.clear()
        world.break_gpu("gpu-1", gpu=5)
        await until(lambda: len(world.records()) == 2)
        with pytest.raises(CommandError, match="has ended already"):
            await cancel(world, old)
        world.capacity.hosts["late"] = FakeHost("late")
        await until(lambda: any(record.status.outcome is Outcome.HEALED for record in world.records()))
        assert {record.metadata.name: record.status.outcome for record in world.records()}[old] is Outcome.CANCELLED


async def test_a_wish_of_a_person_that_was_called_off_leaves_the_node_too() -> None:
    world = World(spares=0)
    async with playing(world):
        await training(world)
        patch = {"metadata": {"annotations": {ANNOTATION_REPLACE_REQUEST: "bob at noon: it hums"}}}
        await world.kube.merge_patch(NODE, "gpu-1", patch)
        await until(lambda: "spare" in waits_for(world))
        assert world.record().spec.requested_by == "bob at noon: it hums"
        await cancel(world)
        await until(lambda: world.record().status.outcome is Outcome.CANCELLED, 10)
        no_trace(world)
        await asyncio.sleep(60)
        assert len(world.records()) == 1
