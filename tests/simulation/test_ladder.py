"""The ladder played whole: a reset, then a reboot, then a replacement; helpers that are silent, refuse, don't help."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from sparewheel.api.enums import NodeActionKind
from sparewheel.api.faults import Action
from sparewheel.api.ladder import LadderRule, Rung, RungResult
from sparewheel.api.names import ANNOTATION_NODE_ACTION, ANNOTATION_REMEDIATION, ANNOTATION_REPLACE_REQUEST, TAINT_FAULT
from sparewheel.api.remediation import FenceKind, NodeStage, Outcome
from sparewheel.api.remediation_policy import RemediationPolicySpec
from sparewheel.cli.commands.cancel import ask_to_cancel
from sparewheel.kube.memory import Call
from sparewheel.kube.port import NODE, POD, InvalidError, Json
from sparewheel.remediation.decide.record import ended, started
from tests.support.node_helpers import Helpers
from tests.support.play import deletions, healed, playing, training, waits_for
from tests.support.world import World, reported_attempt, until

pytestmark = pytest.mark.looptime
RESET, REBOOT = NodeActionKind.RESET_GPU, NodeActionKind.REBOOT
RULE = LadderRule(
    rungs=[Rung(kind=RESET, timeout_seconds=60), Rung(kind=REBOOT, timeout_seconds=120)],
    mended_count=2,
    mended_window_seconds=3600,
)


def ladder_world(rule: LadderRule = RULE, **fields: Any) -> World:
    world = World(**fields)
    put_policy(world, rule)
    return world


def put_policy(world: World, rule: LadderRule = RULE, **fields: Any) -> None:
    world.put_policy(RemediationPolicySpec(routes=world.routes, ladder=rule, **fields))


def taken(world: World) -> list[tuple[NodeActionKind, RungResult | None]]:
    return [(rung.kind, rung.result) for rung in world.record().status.ladder.rungs]


def in_service(world: World, node: str = "gpu-1") -> None:
    """Nothing of ours is left on it, no spare was touched, and Slurm has all its nodes."""
    body = world.node(node)
    assert not {ANNOTATION_REMEDIATION, ANNOTATION_NODE_ACTION} & (body["metadata"].get("annotations") or {}).keys()
    assert not body["spec"].get("unschedulable")
    taints: list[Json] = body["spec"].get("taints") or []
    assert TAINT_FAULT not in [taint["key"] for taint in taints]
    assert not any(slurm.down or slurm.drain for slurm in world.slurm.node_table.values())


def no_spare(world: World) -> None:
    assert world.capacity.log == []
    assert [host.phase for host in world.capacity.hosts.values()] == ["Active", "Active", "Spare"]


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


# -------------------------------------------------------------------- helpers that don't help
async def test_a_silent_helper_is_given_up_in_bounded_time() -> None:
    world = ladder_world()
    Helpers(world, silent=True)
    async with playing(world):
        await training(world)
        begun = world.clock.monotonic_seconds()
        world.break_gpu("gpu-1", code="XID 119", action=Action.RESET_GPU)
        await healed(world, 120)
        assert taken(world) == [(RESET, RungResult.SILENT)], "nobody is there to reboot either"
        assert world.clock.monotonic_seconds() - begun < 90


async def test_a_helper_that_refuses_escalates_at_once() -> None:
    world = ladder_world()
    helpers = Helpers(world, held={"gpu-1": ["dcgm-exporter (4242)"]})
    async with playing(world):
        await training(world)
        world.break_gpu("gpu-1", code="XID 119", action=Action.RESET_GPU)
        await healed(world, 200)
        assert taken(world) == [(RESET, RungResult.REFUSED), (REBOOT, RungResult.SUCCEEDED)]
        assert world.record().status.ladder.rungs[0].message == "0000:03:00 is held by dcgm-exporter (4242)"
        assert helpers.done == ["gpu-1: reboot"]


async def test_a_request_that_the_api_server_forbids_is_the_end_of_the_ladder() -> None:
    """NVSentinel 1808: a 403 leaves the repair in progress for ever."""
    world = ladder_world()
    Helpers(world)

    def forbid(call: Call) -> None:
        metadata: Json = (call.body or {}).get("metadata") or {}
        annotations: Json = metadata.get("annotations") or {}
        if call.verb == "patch" and call.resource == NODE and annotations.get(ANNOTATION_NODE_ACTION):
            raise InvalidError("patch Node gpu-1: 403 Forbidden")

    world.kube.before = forbid
    async with playing(world):
        await training(world)
        begun = world.clock.monotonic_seconds()
        world.break_gpu("gpu-1", code="XID 119", action=Action.RESET_GPU)
        await healed(world, 120)
        (rung,) = world.record().status.ladder.rungs
        assert (rung.result, rung.message) == (RungResult.NOT_ASKED, "patch Node gpu-1: 403 Forbidden")
        assert world.clock.monotonic_seconds() - begun < 60


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


# -------------------------------------------------------------------- more than one fault, more than one wish
async def test_two_gpus_of_one_node_are_reset_one_after_the_other() -> None:
    world = ladder_world()
    helpers = Helpers(world)
    async with playing(world):
        await training(world)
        world.break_gpu("gpu-1", code="XID 119", gpu=3, action=Action.RESET_GPU)
        world.break_gpu("gpu-1", code="XID 48", gpu=5, action=Action.RESET_GPU)
        await healed(world, 120)
        assert len(world.records()) == 1
        assert sorted(helpers.done) == ["gpu-1: reset 0000:03:00", "gpu-1: reset 0000:05:00"]
        assert taken(world) == [(RESET, RungResult.SUCCEEDED)] * 2
        in_service(world)


async def test_a_second_fault_that_asks_for_a_reboot_gets_it_after_the_reset() -> None:
    world = ladder_world()
    helpers = Helpers(world)
    async with playing(world):
        await training(world)
        world.break_gpu("gpu-1", code="XID 119", gpu=3, action=Action.RESET_GPU)
        await until(lambda: bool(helpers.done))
        world.break_gpu("gpu-1", code="XID 151", gpu=5, action=Action.REBOOT)
        await healed(world, 300)
        assert helpers.done == ["gpu-1: reset 0000:03:00", "gpu-1: reboot"]


@pytest.mark.parametrize("by", ["a worse fault", "a person"])
async def test_a_wish_for_more_ends_the_ladder(by: str) -> None:
    world = ladder_world()
    helpers = Helpers(world, mends=set())
    async with playing(world):
        await training(world)
        world.break_gpu("gpu-1", code="XID 119", gpu=3, action=Action.RESET_GPU)
        await until(lambda: bool(helpers.done))
        if by == "a person":
            patch = {"metadata": {"annotations": {ANNOTATION_REPLACE_REQUEST: "kim: enough"}}}
            await world.kube.merge_patch(NODE, "gpu-1", patch)
        else:
            world.break_gpu("gpu-1", gpu=5)
        await healed(world, 100)
        assert taken(world) == [(RESET, RungResult.WITHDRAWN)]
        assert world.capacity.hosts["gpu-1"].phase == "Quarantined"


async def test_what_does_not_last_is_replaced() -> None:
    world = ladder_world()
    helpers = Helpers(world)
    async with playing(world):
        await training(world)
        for number in (1, 2, 3):
            world.break_gpu("gpu-1", code=f"XID {118 + number}", action=Action.RESET_GPU)
            await until(lambda count=number: len(world.records()) == count)
            await until(lambda: all(one.status.outcome is Outcome.HEALED for one in world.records()), 180)
            await asyncio.sleep(10)
        assert len(helpers.done) == 2
        last = max(world.records(), key=lambda one: one.spec.fault.first_seen)
        assert last.status.ladder.rungs == []
        assert last.spec.ladder_off.startswith("node gpu-1 was mended 2 times within 3600 s (")
        assert world.capacity.hosts["gpu-1"].phase == "Quarantined"


# -------------------------------------------------------------------- called off
async def cancel(world: World) -> None:
    await ask_to_cancel(world.kube, world.record().metadata.name, "ada", "a false alarm", world.clock.now())


async def test_called_off_before_the_helper_has_read_it() -> None:
    world = ladder_world()
    helpers = Helpers(world, silent=True)
    async with playing(world):
        await training(world)
        world.break_gpu("gpu-1", code="XID 119", action=Action.RESET_GPU)
        await until(lambda: ANNOTATION_NODE_ACTION in (world.node("gpu-1")["metadata"].get("annotations") or {}))
        await cancel(world)
        await until(lambda: ANNOTATION_NODE_ACTION not in world.node("gpu-1")["metadata"]["annotations"], 5)
        helpers.silent = False
        await until(lambda: world.record().status.outcome is Outcome.CANCELLED, 40)
        assert helpers.done == []
        assert taken(world) == [(RESET, RungResult.WITHDRAWN)]
        in_service(world)
        no_spare(world)


@pytest.mark.parametrize("by_uncordon", [True, False])
async def test_called_off_in_the_middle_of_a_reboot_it_is_given_back_once_it_is_up(by_uncordon: bool) -> None:
    world = ladder_world()
    helpers = Helpers(world)
    async with playing(world):
        await training(world)
        world.break_gpu("gpu-1", code="UVM_FATAL", action=Action.REBOOT)
        await until(lambda: bool(helpers.back_at), 120)
        if by_uncordon:
            await world.kube.merge_patch(NODE, "gpu-1", {"spec": {"unschedulable": False}})
        else:
            await cancel(world)
        await asyncio.sleep(15)
        assert world.record().status.outcome is Outcome.OPEN, "a node in the middle of a reboot is not given back"
        assert any(slurm.down for slurm in world.slurm.node_table.values())
        await until(lambda: world.record().status.outcome is not Outcome.OPEN, 60)
        assert world.boots == {"gpu-1": 1}
        in_service(world)
        no_spare(world)


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
