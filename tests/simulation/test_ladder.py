"""The ladder played whole: a reset, then a reboot, then a replacement; and whom it lets go first."""

from __future__ import annotations

import asyncio

import pytest

from sparewheel.api.faults import Action
from sparewheel.api.ladder import RungResult
from sparewheel.api.remediation import FenceKind, NodeStage, Outcome
from sparewheel.kube.port import NODE, POD
from sparewheel.remediation.decide.record import ended, started
from tests.support.job_reports import reported_attempt
from tests.support.ladder_play import REBOOT, RESET, in_service, ladder_world, no_spare, put_policy, taken
from tests.support.node_helpers import Helpers
from tests.support.play import deletions, healed, playing, training, waits_for
from tests.support.world import World, until


# -------------------------------------------------------------------- each rung
async def test_a_reset_that_helps_gives_the_node_back_without_a_spare() -> None:
    world = ladder_world()
    helpers = Helpers(world)
    async with playing(world):
        job = await training(world)
        world.put_pod("web", "gpu-1")
        fault = world.break_gpu("gpu-1", code="XID 119", action=Action.RESET_GPU)
        await healed(world)
        await until(lambda: reported_attempt(job) == 1)
        record = world.record()
        assert helpers.done == [f"gpu-1: reset {fault.device}"]
        assert taken(world) == [(RESET, RungResult.SUCCEEDED)]
        assert ended(record.status, NodeStage.MENDED)
        assert not started(record.status, NodeStage.DRAINED)
        assert deletions(world) == ["evict web"], "other pods leave too, the worker stays"
        in_service(world)
        no_spare(world)
        assert "reset of GPU 0000:03:00 helped after" in record.status.message
        assert record.status.message.endswith("No spare was used.")
        assert job.nodes == ["gpu-0", "gpu-1"]
        assert len(world.receiver.of("incident.closed")) == 1


async def test_a_reset_that_does_not_help_becomes_a_reboot() -> None:
    world = ladder_world()
    helpers = Helpers(world, mends={REBOOT})
    async with playing(world):
        job = await training(world)
        world.break_gpu("gpu-1", code="XID 119", action=Action.RESET_GPU)
        await healed(world, 300)
        assert helpers.done == ["gpu-1: reset 0000:03:00", "gpu-1: reboot"]
        assert taken(world) == [(RESET, RungResult.TIMED_OUT), (REBOOT, RungResult.SUCCEEDED)]
        reset, reboot = world.record().status.ladder.rungs
        assert reset.message == "XID 119 is still open on 0000:03:00"
        assert reset.ended_at is not None
        assert (reset.ended_at - reset.asked_at).total_seconds() == pytest.approx(60, abs=3)
        assert reboot.boot_id == "boot-gpu-1"
        in_service(world)
        no_spare(world)
        await until(lambda: reported_attempt(job) == 1)


async def test_neither_helps_and_the_node_is_replaced() -> None:
    world = ladder_world()
    Helpers(world, mends=set())
    async with playing(world):
        job = await training(world)
        world.break_gpu("gpu-1", code="XID 119", action=Action.RESET_GPU)
        await until(lambda: bool(world.records()) and len(taken(world)) == 2, 300)
        assert world.capacity.log == [], "no spare is claimed before the last rung has failed"
        await healed(world, 300)
        assert taken(world) == [(RESET, RungResult.TIMED_OUT), (REBOOT, RungResult.TIMED_OUT)]
        assert world.capacity.hosts["gpu-1"].phase == "Quarantined"
        assert "reset of GPU 0000:03:00 and reboot did not help" in world.capacity.hosts["gpu-1"].reason
        assert "Before that: reset of GPU 0000:03:00 did not help: timed out after 6" in world.record().status.message
        await until(lambda: reported_attempt(job) == 1)


async def test_a_host_that_does_not_go_down_is_replaced() -> None:
    """NVSentinel 1818: the reboot returns ok and nothing happens."""
    world = ladder_world()
    Helpers(world, hangs=True)
    async with playing(world):
        await training(world)
        world.break_gpu("gpu-1", code="UVM_FATAL", action=Action.REBOOT)
        await healed(world, 400)
        (rung,) = world.record().status.ladder.rungs
        assert (rung.kind, rung.result, rung.message) == (REBOOT, RungResult.TIMED_OUT, "no other boot reports")
        assert world.capacity.hosts["gpu-1"].phase == "Quarantined"


async def test_a_host_that_does_not_come_back_is_replaced() -> None:
    world = ladder_world()
    helpers = Helpers(world)
    async with playing(world):
        await training(world)
        world.break_gpu("gpu-1", code="UVM_FATAL", action=Action.REBOOT)
        await until(lambda: bool(helpers.back_at), 120)
        helpers.back_at.clear()
        world.capacity.hosts["gpu-1"].power = "off"
        await healed(world, 400)
        assert taken(world) == [(REBOOT, RungResult.TIMED_OUT)]
        assert len(world.records()) == 1, "a host that reboots is not lost"


async def test_a_node_that_somebody_removes_in_the_middle_of_its_reboot_is_replaced() -> None:
    """A cloud's controller deletes the Node of a machine that is off."""
    world = ladder_world()
    helpers = Helpers(world)
    async with playing(world):
        job = await training(world)
        world.break_gpu("gpu-1", code="UVM_FATAL", action=Action.REBOOT)
        await until(lambda: bool(helpers.back_at), 120)
        helpers.back_at.clear()
        await world.kube.delete(NODE, "gpu-1")
        await healed(world, 120)
        assert taken(world) == [(REBOOT, RungResult.WITHDRAWN)]
        assert world.record().status.ladder.why == "the Node was removed or registered anew"
        await until(lambda: reported_attempt(job) == 1)


async def test_a_fault_that_asks_for_a_replacement_gets_one_at_once() -> None:
    world = ladder_world()
    helpers = Helpers(world)
    async with playing(world):
        await training(world)
        world.break_gpu("gpu-1")
        await healed(world)
        assert (helpers.done, taken(world)) == ([], [])


async def test_without_a_ladder_it_is_replaced_as_ever() -> None:
    world = World()
    helpers = Helpers(world)
    async with playing(world):
        await training(world)
        world.break_gpu("gpu-1", code="XID 119", action=Action.RESET_GPU)
        await healed(world)
        assert (helpers.done, taken(world)) == ([], [])
        assert not started(world.record().status, NodeStage.MENDED)
        assert "Quarantined" in {host.phase for host in world.capacity.hosts.values()}


# -------------------------------------------------------------------- jobs first
async def test_nothing_is_reset_under_a_running_job_and_an_open_breaker_lets_them_run() -> None:
    world = ladder_world()
    put_policy(world, max_fenced_nodes=1)
    helpers = Helpers(world)
    async with playing(world):
        jobs = [world.submit(number, size=1) for number in (1, 2)]
        await until(lambda: all(reported_attempt(job) == 0 for job in jobs))
        await asyncio.sleep(12)
        world.break_gpu("gpu-2", code="XID 119", action=Action.RESET_GPU)
        await until(lambda: bool(world.records()) and world.record().status.outcome is Outcome.HEALED)
        world.break_gpu("gpu-1", code="XID 119", action=Action.RESET_GPU)
        await until(lambda: len(world.records()) == 2)
        drained = next(one for one in world.records() if one.spec.node == "gpu-1").metadata.name
        await asyncio.sleep(400)
        record = next(one for one in world.records() if one.metadata.name == drained)
        assert record.status.fence is FenceKind.DRAIN
        assert record.status.waiting_for == "the job processes on the node to end, before the reset of GPU 0000:03:00"
        assert not any(done.startswith("gpu-1") for done in helpers.done)
        for job in jobs:
            world.slurm.end_job(job.job_id)
        await until(lambda: all(one.status.outcome is Outcome.HEALED for one in world.records()))
        assert "gpu-1: reset 0000:03:00" in helpers.done
        in_service(world)


async def test_jobs_whose_end_nobody_sees_are_no_reason_to_wait_for_ever() -> None:
    world = ladder_world(grace_seconds=10)
    helpers = Helpers(world)
    async with playing(world):
        await training(world)
        world.break_gpu("gpu-1", code="XID 119", action=Action.RESET_GPU)
        await until(lambda: bool(world.records()) and ended(world.record().status, NodeStage.FENCED))
        world.silent.add("gpu-1")
        await until(lambda: world.record().status.ladder.over_at is not None, 150)
        assert "the job processes on the node not seen to end" in world.record().status.ladder.why
        assert helpers.done == []
        await healed(world, 300)


async def test_a_veto_holds_the_first_rung_and_not_the_one_under_way() -> None:
    world = ladder_world()
    helpers = Helpers(world, mends={REBOOT})
    async with playing(world):
        await training(world)
        world.veto("gpu-1", "first")
        world.break_gpu("gpu-1", code="XID 119", action=Action.RESET_GPU)
        await until(lambda: "veto" in waits_for(world))
        await asyncio.sleep(60)
        assert helpers.done == []
        drop(world, "first")
        await until(lambda: helpers.done == ["gpu-1: reset 0000:03:00"])
        world.veto("gpu-1", "second")
        await until(lambda: taken(world)[0][1] is RungResult.TIMED_OUT)
        await asyncio.sleep(60)
        assert len(taken(world)) == 1, "the next rung waits for the veto"
        drop(world, "second")
        await healed(world, 300)


def drop(world: World, pod: str) -> None:
    world.kube.drop(POD, pod, "other")


# -------------------------------------------------------------------- nothing is touched
async def test_a_dry_run_says_which_rungs_it_would_take() -> None:
    world = ladder_world()
    put_policy(world, dry_run=True)
    helpers = Helpers(world)
    async with playing(world):
        await training(world)
        world.break_gpu("gpu-1", code="XID 119", action=Action.RESET_GPU)
        await until(lambda: bool(world.records()) and world.record().status.outcome is Outcome.DRY_RUN)
        await asyncio.sleep(60)
        assert helpers.done == []
        assert "reset of GPU 0000:03:00 (60 s), then reboot (120 s)" in world.record().status.message


async def test_a_drill_climbs_too_and_counts_for_nothing() -> None:
    world = ladder_world()
    helpers = Helpers(world)
    async with playing(world):
        await training(world)
        for number in (1, 2, 3):
            world.break_gpu("gpu-1", code="XID 119", action=Action.RESET_GPU, drill=True)
            await until(lambda count=number: len(world.records()) == count)
            await until(lambda: all(one.status.outcome is Outcome.HEALED for one in world.records()), 180)
            await asyncio.sleep(10)
        assert len(helpers.done) == 3
        told = world.receiver.of("incident.closed")
        assert all(event["title"].startswith("Drill: ") for event in told)
