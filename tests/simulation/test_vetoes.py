"""Vetoes and pauses that end, and vetoes that last; in memory."""

from __future__ import annotations

import asyncio

import pytest

from sparewheel.api.faults import Action
from sparewheel.api.names import (
    ANNOTATION_REPLACE_REQUEST,
    ANNOTATION_VETO,
)
from sparewheel.api.remediation_policy import RemediationPolicySpec, VetoEscalation, VetoRule
from sparewheel.kube.port import NODE
from tests.support.play import deletions, healed, playing, training, waits_for
from tests.support.world import World, until


async def test_a_nodes_veto_with_an_end() -> None:
    world = World()
    async with playing(world):
        await training(world)
        body = world.node("gpu-1")
        until_then = world.clock.now().replace(microsecond=0)
        until_then = until_then.replace(minute=until_then.minute + 3)
        body["metadata"].setdefault("annotations", {})[ANNOTATION_VETO] = f"until={until_then.isoformat()}; profiling"
        world.kube.put(NODE, body)
        world.break_gpu("gpu-1")
        await until(lambda: "veto on node gpu-1 until" in waits_for(world))
        assert "(profiling)" in waits_for(world)
        assert (deletions(world), world.capacity.log) == ([], [])
        await healed(world, 300)
        assert world.clock.now() >= until_then


async def test_what_is_asked_for_while_the_pool_is_paused_is_done_once_the_pause_is_over() -> None:
    world = World()
    async with playing(world):
        world.put_pool(paused=True)
        body = world.node("gpu-1")
        body["metadata"]["annotations"] = {ANNOTATION_REPLACE_REQUEST: "kim: fan noise"}
        world.kube.put(NODE, body)
        await asyncio.sleep(60)
        assert world.records() == []
        world.put_pool()
        await healed(world)
        assert world.capacity.hosts["gpu-1"].phase == "Quarantined"


async def test_a_pool_paused_in_the_middle_holds_and_goes_on() -> None:
    world = World(grace_seconds=60)
    async with playing(world):
        await training(world, save_seconds=50.0)
        world.break_gpu("gpu-1")
        await until(lambda: "grace ends" in waits_for(world))
        world.put_pool(paused=True)
        await until(lambda: waits_for(world) == "pool gpu, which is paused")
        await asyncio.sleep(120)
        assert deletions(world) == []
        world.put_pool()
        await healed(world)


@pytest.mark.parametrize("escalate", list(VetoEscalation))
async def test_a_veto_that_lasts_pages_or_gives_way(escalate: VetoEscalation) -> None:
    world = World()
    world.put_policy(RemediationPolicySpec(veto=VetoRule(max_seconds=100, escalate=escalate), routes=world.routes))
    async with playing(world):
        await training(world)
        world.veto("gpu-1")
        world.break_gpu("gpu-1", action=Action.REPLACE)
        await until(lambda: "veto" in waits_for(world))
        await asyncio.sleep(90)
        assert len(world.receiver.of("incident.waiting")) == 1
        if escalate is VetoEscalation.PAGE:
            await asyncio.sleep(200)
            told = world.receiver.of("incident.waiting")
            assert [(event["severity"], event["actionNeeded"]) for event in told] == [
                ("warning", False),
                ("critical", True),
            ]
            assert deletions(world) == []
        else:
            await healed(world)
            stages = {record.name.value: record.message for record in world.record().status.stages}
            assert stages["vetoed"] == "the veto of pod other/eval, set aside by the policy after 100 s"
            assert "evict eval" in deletions(world)
