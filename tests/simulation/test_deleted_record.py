"""Somebody deletes the record of an open incident: nothing more is done in its name, and the fault gets a new one."""

from __future__ import annotations

import asyncio

from sparewheel.kube.port import REMEDIATION
from tests.support.fake_replacer import FakeHost
from tests.support.play import healed, playing, training, waits_for
from tests.support.world import World, until


async def test_the_fault_is_taken_up_by_a_new_record() -> None:
    world = World(spares=0)
    async with playing(world) as controller:
        await training(world)
        world.break_gpu("gpu-1")
        await until(lambda: "spare" in waits_for(world))
        old = world.record()
        world.kube.drop(REMEDIATION, old.metadata.name, old.metadata.namespace)
        await until(lambda: bool(world.records()) and world.record().metadata.uid != old.metadata.uid)
        world.capacity.hosts["late"] = FakeHost("late")
        await healed(world)
        await asyncio.sleep(60)
        assert controller.state.taken == {}
        assert not any(node.down or node.drain for node in world.slurm.node_table.values())


async def test_without_its_fault_it_is_forgotten() -> None:
    world = World(spares=0)
    async with playing(world) as controller:
        await training(world)
        world.break_gpu("gpu-1")
        await until(lambda: "spare" in waits_for(world))
        world.faults.clear()
        await asyncio.sleep(5)
        world.kube.drop(REMEDIATION, world.record().metadata.name, world.record().metadata.namespace)
        await asyncio.sleep(5)
        assert (controller.state.taken, world.records()) == ({}, [])
