"""Somebody removes the struck Node, as a cloud's controller does when the machine ends: the pool is made whole."""

from __future__ import annotations

import pytest

from sparewheel.api.remediation import Outcome
from sparewheel.kube.port import NODE, POD
from tests.support.fake_replacer import FakeHost
from tests.support.play import playing, training
from tests.support.world import World, reported_attempt, until

pytestmark = pytest.mark.looptime


async def test_a_node_removed_while_it_waits_for_a_spare_is_replaced_when_one_appears() -> None:
    world = World(spares=0)
    async with playing(world):
        job = await training(world)
        world.break_gpu("gpu-1")
        await until(lambda: bool(world.records()) and "spare" in world.record().status.replacement.message)
        for pod in [pod["metadata"]["name"] for pod in world._workers() if pod["spec"].get("nodeName") == "gpu-1"]:
            world.kube.drop(POD, pod, "slurm")
        world.kube.drop(NODE, "gpu-1")
        world.capacity.hosts["gpu-9"] = FakeHost("gpu-9", "Spare", "")
        await until(lambda: world.record().status.outcome is Outcome.HEALED)
        await until(lambda: reported_attempt(job) == 1)
        assert world.capacity.hosts["gpu-1"].phase == "Quarantined"
        assert not any(node.down or node.drain for node in world.slurm.node_table.values())
