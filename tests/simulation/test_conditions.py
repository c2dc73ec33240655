"""Other programs' findings: a Node condition heals a node; with the kernel's line of that event it is one incident."""

from __future__ import annotations

import asyncio

import pytest

from sparewheel.api.enums import Action, NodeActionKind
from sparewheel.api.ladder import LadderRule, Rung
from sparewheel.api.node_conditions import NodeConditionRule
from sparewheel.api.remediation import Outcome
from sparewheel.api.remediation_policy import RemediationPolicySpec
from sparewheel.kube.port import NODE
from tests.support.node_helpers import Helpers
from tests.support.play import playing, training, waits_for
from tests.support.world import World, until

RULES = RemediationPolicySpec(node_conditions=[NodeConditionRule(type="XidCriticalError", action=Action.REPLACE)])


async def find(world: World, node: str, status: str = "True") -> None:
    """Somebody's detector writes its condition."""
    row = {
        "type": "XidCriticalError",
        "status": status,
        "reason": "XID",
        "lastTransitionTime": world.clock.now().isoformat(),
    }
    found = world.node(node).get("status", {}).get("conditions", [])
    rows = [*(one for one in found if one["type"] != row["type"]), row]
    await world.kube.merge_patch(NODE, node, {"status": {"conditions": rows}}, subresource="status")


def healed(world: World) -> bool:
    return [record.status.outcome for record in world.records()] == [Outcome.HEALED]


async def test_a_condition_alone_heals_the_node() -> None:
    world = World()
    world.put_policy(RULES)
    async with playing(world):
        await training(world)
        await find(world, "gpu-1")
        await until(lambda: healed(world), 240)
        assert world.record().spec.fault.code == "CONDITION XidCriticalError"


@pytest.mark.parametrize("first", ["condition", "kernel log"])
async def test_a_condition_and_a_kernel_line_are_one_incident(first: str) -> None:
    world = World()
    world.put_policy(RULES)
    async with playing(world):
        await training(world)
        if first == "condition":
            await find(world, "gpu-1")
            await asyncio.sleep(2)
            world.break_gpu("gpu-1")
        else:
            world.break_gpu("gpu-1")
            await asyncio.sleep(2)
            await find(world, "gpu-1")
        await until(lambda: healed(world), 240)
        await asyncio.sleep(60)
        assert len(world.records()) == 1


async def test_without_a_rule_nothing_happens() -> None:
    world = World()
    async with playing(world):
        await training(world)
        await find(world, "gpu-1")
        await asyncio.sleep(60)
        assert world.records() == []


async def test_what_somebody_else_found_is_over_only_when_he_says_so() -> None:
    """A cordon waits for the condition to go, and so does a rung of the ladder."""
    world = World()
    world.put_policy(
        RemediationPolicySpec(node_conditions=[NodeConditionRule(type="XidCriticalError", action=Action.CORDON)])
    )
    async with playing(world):
        await training(world)
        await find(world, "gpu-1")
        await until(lambda: "CONDITION XidCriticalError is still open" in waits_for(world))
        await asyncio.sleep(60)
        assert not healed(world)
        await find(world, "gpu-1", status="False")
        await until(lambda: healed(world), 30)


async def test_a_reboot_that_a_condition_asked_for_helped_once_the_condition_has_gone() -> None:
    world = World()
    world.put_policy(
        RemediationPolicySpec(
            node_conditions=[NodeConditionRule(type="XidCriticalError", action=Action.RESET_GPU)],
            ladder=LadderRule(
                rungs=[Rung(kind=kind, timeout_seconds=300) for kind in NodeActionKind],
            ),
        )
    )
    helpers = Helpers(world)
    async with playing(world):
        await training(world)
        await find(world, "gpu-1")
        await until(lambda: world.boots == {"gpu-1": 1}, 200)
        assert helpers.done == ["gpu-1: reboot"], "nobody said which GPU"
        await find(world, "gpu-1")
        await asyncio.sleep(60)
        assert not healed(world)
        await find(world, "gpu-1", status="False")
        await until(lambda: healed(world), 30)
        assert world.capacity.log == []
