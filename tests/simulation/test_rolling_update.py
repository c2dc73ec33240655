"""Workers made again on their own hosts, as by a rolling update: Slurm gets its nodes back, people keep theirs."""

from __future__ import annotations

import asyncio

import pytest

from sparewheel.kube.port import POD
from tests.support.play import healed, playing, training
from tests.support.world import World, until


def make_again(world: World, name: str) -> None:
    """Its successor finds the same host free."""
    world.kube.drop(POD, name, "slurm")


async def test_a_worker_made_again_on_its_host_gets_work_again() -> None:
    world = World(spares=0)
    async with playing(world):
        before = world.worker_nodes()
        make_again(world, "gpu-0")
        await until(lambda: world.slurm.node_table["gpu-0"].down, 2)
        await until(lambda: not world.slurm.node_table["gpu-0"].down, 30)
        assert world.worker_nodes() == before
        assert not world.records()
        states = [arguments for method, arguments in world.slurm.calls if method == "set_node_state"]
        assert states == [("gpu-0", ("RESUME",), "")], "once"


@pytest.mark.parametrize("drain", [True, False])
async def test_a_node_that_a_person_took_out_stays_out_through_an_update(*, drain: bool) -> None:
    world = World(spares=0)
    async with playing(world):
        table = world.slurm.node_table
        table["gpu-0"].drain, table["gpu-0"].down = drain, not drain
        world.slurm.give_reason("gpu-0", "bad HBM, ask Kim")
        await asyncio.sleep(15)
        make_again(world, "gpu-0")
        await until(lambda: "Pod is terminating" in table["gpu-0"].reason, 2)
        await asyncio.sleep(60)
        assert table["gpu-0"].down


async def test_an_incident_and_an_update_at_once_are_one_recovery() -> None:
    world = World()
    async with playing(world):
        await training(world)
        world.break_gpu("gpu-1")
        await until(lambda: bool(world.records()))
        make_again(world, next(name for name, node in world.worker_nodes().items() if node == "gpu-2"))
        await healed(world)
        await until(lambda: not any(node.down or node.drain for node in world.slurm.node_table.values()), 60)
