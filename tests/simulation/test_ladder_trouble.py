"""The ladder disturbed: helpers that are silent or refuse, more faults, people who want more or nothing at all."""

from __future__ import annotations

import asyncio

import pytest

from sparewheel.api.enums import NodeActionKind
from sparewheel.api.faults import Action
from sparewheel.api.ladder import LadderRule, Rung, RungResult
from sparewheel.api.names import ANNOTATION_NODE_ACTION, ANNOTATION_REPLACE_REQUEST
from sparewheel.api.remediation import Outcome
from sparewheel.kube.memory_faults import Call
from sparewheel.kube.port import NODE, InvalidError, Json
from tests.support.job_reports import reported_attempt
from tests.support.ladder_play import REBOOT, RESET, in_service, ladder_world, no_spare, taken
from tests.support.node_helpers import Helpers
from tests.support.play import call_off, healed, playing, training
from tests.support.world import World, until


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
async def test_called_off_before_the_helper_has_read_it() -> None:
    world = ladder_world()
    helpers = Helpers(world, silent=True)
    async with playing(world):
        await training(world)
        world.break_gpu("gpu-1", code="XID 119", action=Action.RESET_GPU)
        await until(lambda: ANNOTATION_NODE_ACTION in (world.node("gpu-1")["metadata"].get("annotations") or {}))
        await call_off(world)
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
            await call_off(world)
        await asyncio.sleep(15)
        assert world.record().status.outcome is Outcome.OPEN, "a node in the middle of a reboot is not given back"
        assert any(slurm.down for slurm in world.slurm.node_table.values())
        await until(lambda: world.record().status.outcome is not Outcome.OPEN, 60)
        assert world.boots == {"gpu-1": 1}
        in_service(world)
        no_spare(world)


async def test_an_admins_drain_in_the_middle_stays_the_admins() -> None:
    world = ladder_world()
    helpers = Helpers(world)
    async with playing(world):
        await training(world)
        (name,) = [slurm for slurm, place in world.worker_nodes().items() if place == "gpu-1"]
        world.break_gpu("gpu-1", code="UVM_FATAL", action=Action.REBOOT)
        await until(lambda: bool(helpers.back_at), 120)
        await world.slurm.set_node_state(name, ["DRAIN"], "bad HBM, ask Kim")
        await healed(world)
        slurm = world.slurm.node_table[name]
        assert (slurm.drain, slurm.reason) == (True, "bad HBM, ask Kim")
        assert world.record().status.message.endswith("(bad HBM, ask Kim): left so.")
        assert not world.node("gpu-1")["spec"]["unschedulable"]


# -------------------------------------------------------------------- warm spares
@pytest.mark.parametrize("mends", [{RESET}, set[NodeActionKind]()])
async def test_a_warm_spare_is_left_alone_until_the_last_rung_has_failed(mends: set[NodeActionKind]) -> None:
    world = ladder_world(LadderRule(rungs=[Rung(kind=RESET, timeout_seconds=30)]), warm=True)
    Helpers(world, mends=mends)
    async with playing(world):
        slurm = world.slurm
        await until(lambda: bool(slurm.reservation_table) and not any(n.drain for n in slurm.node_table.values()))
        spares = set(slurm.reservation_table)
        job = await training(world)
        world.break_gpu("gpu-1", code="XID 119", action=Action.RESET_GPU)
        await until(lambda: bool(world.records()) and bool(taken(world)))
        assert world.record().status.replacement.claimed_at is None
        assert spares <= slurm.reservation_table.keys()
        await healed(world, 400)
        await until(lambda: reported_attempt(job) == 1)
        await until(
            lambda: all(
                node.name in job.nodes or node.down or slurm_reserved(world, node.name)
                for node in slurm.node_table.values()
            )
        )
        assert world.capacity.hosts["gpu-3"].phase == ("Spare" if mends else "Active")


def slurm_reserved(world: World, name: str) -> bool:
    return any(name in kept.nodes for kept in world.slurm.reservation_table.values())
