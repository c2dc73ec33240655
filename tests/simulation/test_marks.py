"""The cordon's own mark on the Node: a controller that dies before its record says so leaves nothing unclear."""

from __future__ import annotations

import asyncio

import pytest

from sparewheel.api.names import ANNOTATION_OWNED, SLINKY_NODE_CORDON_REASON, TAINT_FAULT
from sparewheel.api.remediation import Outcome
from sparewheel.kube.port import NODE, Json
from tests.support.mortal import Life, mortal_controller
from tests.support.play import call_off, healed, no_trace, playing, training, waits_for
from tests.support.world import World, until

THE_CORDON = 1
"""Of the writes of an incident: its record is made, then the Node is cordoned."""


def marks(world: World) -> Json:
    found: Json = world.node("gpu-1")["metadata"].get("annotations") or {}
    return found


async def cordoned_and_dead(world: World) -> None:
    """gpu-1 is cordoned, and the controller died before it wrote so."""
    life = Life()
    async with playing(world, mortal_controller(world, life, "first")):
        await training(world)
        life.die_at, life.when = len(life.writes) + THE_CORDON, "after"
        world.break_gpu("gpu-1")
        await life.dead.wait()
    assert life.writes[-1] == "merge_patch Node gpu-1"
    assert not world.record().status.owned.cordon
    assert marks(world)[ANNOTATION_OWNED] == "cordon fault-taint"


async def test_another_controller_takes_it_over() -> None:
    world = World()
    await cordoned_and_dead(world)
    async with playing(world):
        await healed(world)
    cordons = [call for call in world.kube.writes if (call.verb, call.resource, call.name) == ("patch", NODE, "gpu-1")]
    assert len(cordons) == 1, "it is not cordoned again"


@pytest.mark.parametrize("wish", [False, True])
async def test_an_incident_that_ends_in_between_takes_the_cordon_back(wish: bool) -> None:
    world = World()
    await cordoned_and_dead(world)
    if wish:
        await call_off(world)
    else:
        world.faults.clear()
    async with playing(world):
        await until(lambda: world.record().status.outcome is Outcome.CANCELLED, 30)
    no_trace(world)
    assert not world.node("gpu-1")["spec"]["taints"]
    assert world.slurm.job_table[7].restart_count == 0


@pytest.mark.parametrize("uncordoned_by_them", [False, True])
async def test_a_cordon_of_others_stays_when_the_incident_is_called_off(uncordoned_by_them: bool) -> None:
    world = World(spares=0)
    async with playing(world):
        await training(world)
        body = world.node("gpu-1")
        body["spec"]["unschedulable"] = True
        body["metadata"]["annotations"] = {SLINKY_NODE_CORDON_REASON: "kim: fan noise"}
        world.kube.put(NODE, body)
        world.break_gpu("gpu-1")
        await until(lambda: "spare" in waits_for(world))
        assert (marks(world)[ANNOTATION_OWNED], world.record().status.owned.cordon) == ("fault-taint", False)
        if uncordoned_by_them:
            world.uncordon("gpu-1")
            await asyncio.sleep(30)
            assert world.record().status.outcome is Outcome.OPEN, "the taint is ours, and still keeps work off"
            return
        await call_off(world)
        await until(lambda: world.record().status.outcome is Outcome.CANCELLED, 10)
        body = world.node("gpu-1")
        assert body["spec"]["unschedulable"]
        assert marks(world) == {SLINKY_NODE_CORDON_REASON: "kim: fan noise"}
        taints: list[Json] = body["spec"].get("taints") or []
        assert TAINT_FAULT not in [taint["key"] for taint in taints]


async def test_a_cordon_of_an_older_controller_is_taken_back_with_its_incident() -> None:
    """Its Node has the incident's name and no more; the record says the rest."""
    world = World(spares=0)
    async with playing(world):
        await training(world)
        world.break_gpu("gpu-1")
        await until(lambda: "spare" in waits_for(world))
        body = world.node("gpu-1")
        del body["metadata"]["annotations"][ANNOTATION_OWNED]
        world.kube.put(NODE, body)
        await call_off(world)
        await until(lambda: world.record().status.outcome is Outcome.CANCELLED, 30)
        no_trace(world)
        assert not world.node("gpu-1")["spec"]["taints"]
