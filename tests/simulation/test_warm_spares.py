"""Warm spares: a registered worker behind a reservation, given free once the struck job can have it; in memory."""

from __future__ import annotations

import asyncio
from typing import Any

from sparewheel.api.names import NAMESPACE
from sparewheel.api.remediation import Outcome
from sparewheel.remediation.controller.loop import Controller
from sparewheel.remediation.decide.survivors import HOLD_PREFIX, hold_name
from sparewheel.remediation.decide.warm import reservation_name
from sparewheel.slurm.memory import MemoryJob, MemorySlurm
from tests.support.job_reports import reported_attempt
from tests.support.play import healed, playing, ready, spare_of, training
from tests.support.world import World, until


async def test_a_spare_stands_by_registered_and_takes_no_work() -> None:
    world = World(warm=True)
    async with playing(world):
        await ready(world)
        world.slurm.submit(MemoryJob(1, 3))
        world.slurm.submit(MemoryJob(2, 2))
        await asyncio.sleep(30)
        assert world.slurm.job_table[1].state == "PENDING", "users see two nodes"
        assert world.slurm.job_table[2].state == "RUNNING"
        assert spare_of(world) not in world.slurm.job_table[2].nodes
        assert not [call for call in world.slurm.calls if call[0] == "set_node_state" and "DOWN" in str(call)]


async def test_no_job_ever_lands_on_a_spare_while_it_registers() -> None:
    world = World(warm=True)
    jobs = [world.submit(job, 1, save_seconds=1.0) for job in range(1, 6)]
    async with playing(world):
        spare = None
        for _ in range(300):
            await asyncio.sleep(0.1)
            places = world.worker_nodes()
            spare = next((name for name, node in places.items() if node == "gpu-3"), spare)
            assert not any(spare in job.nodes for job in jobs)
        await ready(world)
        assert sum(job.state == "RUNNING" for job in jobs) == 2


async def test_the_struck_job_gets_survivor_and_spare_at_once_and_the_rival_waits() -> None:
    world = World(warm=True)
    async with playing(world):
        await ready(world)
        job = await training(world, save_seconds=3.0)
        small, rival = world.submit(9, 1), world.submit(8, 2)
        spare, struck = spare_of(world), next(n for n, node in world.worker_nodes().items() if node == "gpu-1")
        survivor = next(name for name in world.worker_nodes() if name not in {spare, struck})
        fault = world.break_gpu("gpu-1")
        await until(lambda: bool(job.completing))
        hold = hold_name(world.record().metadata.name)
        await until(lambda: spare in world.slurm.reservation_table[hold].nodes, 2)
        assert set(world.slurm.reservation_table[hold].nodes) == {spare, survivor}, "while it saves"
        await until(lambda: reported_attempt(job) == 1)
        assert not {hold, reservation_name(spare)} & world.slurm.reservation_table.keys()
        resumed = (world.clock.now() - fault.first_seen).total_seconds()
        assert resumed < 3.0 + 1.5 + 1.0, "the save, the load, and one second"
        assert set(job.nodes) == {spare, survivor}
        assert (small.state, rival.state) == ("PENDING", "PENDING")
        await healed(world)
        record = world.record().status.replacement
        assert (record.spare_host, record.spare_slurm_node) == ("gpu-3", spare)
        assert record.lifted_at is not None
        assert f"Slurm node {spare} took the place of {struck}" in world.record().status.message
        assert job.restart_count == 1
        assert world.capacity.hosts["gpu-1"].phase == "Quarantined"


class SlowToDelete:
    """Slurm as it is, but whoever deletes a reservation hears of it late."""

    def __init__(self, slurm: MemorySlurm) -> None:
        self._slurm = slurm

    def __getattr__(self, name: str) -> Any:
        return getattr(self._slurm, name)

    async def delete_reservation(self, name: str) -> None:
        there = name in self._slurm.reservation_table
        await self._slurm.delete_reservation(name)
        if name.startswith(HOLD_PREFIX) or not there:
            await asyncio.sleep(0.5 if there else 0.8)


async def test_what_was_lifted_is_not_held_again_by_the_search_beside_it() -> None:
    world = World(warm=True)
    slurm: Any = SlowToDelete(world.slurm)
    controller = Controller(
        world.kube, slurm, world.capacity, world.receiver, world.clock, NAMESPACE, "one", version="test"
    )
    async with playing(world, controller):
        await ready(world)
        job = await training(world, save_seconds=1.0)
        world.break_gpu("gpu-1")
        await until(lambda: reported_attempt(job) == 1, 10)
        await healed(world)
        held = [name for name in world.slurm.reservation_table if name.startswith(HOLD_PREFIX)]
        assert not held


async def test_the_struck_worker_comes_back_as_the_next_warm_spare() -> None:
    world = World(warm=True)
    async with playing(world):
        await ready(world)
        job = await training(world)
        struck = next(name for name, node in world.worker_nodes().items() if node == "gpu-1")
        world.break_gpu("gpu-1")
        await healed(world)
        await asyncio.sleep(5)
        assert world.slurm.node_table[struck].down, "no host for it, and no job's way back depends on it"
        assert reservation_name(struck) in world.slurm.reservation_table
        world.warm_up("gpu-4")
        await until(lambda: world.worker_nodes()[struck] == "gpu-4" and not world.slurm.node_table[struck].down)
        assert reservation_name(struck) in world.slurm.reservation_table
        assert job.state == "RUNNING"
        world.faults.clear()
        world.break_gpu("gpu-2")
        await until(lambda: len(world.records()) == 2)
        await until(lambda: reported_attempt(job) == 2)
        assert struck in job.nodes
        await until(lambda: all(r.status.outcome is Outcome.HEALED for r in world.records()), 240)


async def test_two_strikes_with_one_spare_the_second_waits_for_a_cold_one() -> None:
    world = World(warm=True)
    async with playing(world):
        await ready(world)
        job = await training(world)
        world.break_gpu("gpu-1")
        await until(lambda: reported_attempt(job) == 1)
        world.break_gpu("gpu-2")
        await until(lambda: len(world.records()) == 2)
        await until(lambda: job.state == "PENDING")
        await asyncio.sleep(60)
        assert job.state == "PENDING"
        world.put_pool(max_concurrent_replacements=2)
        world.capacity.hosts["gpu-4"] = type(world.capacity.hosts["gpu-3"])("gpu-4")
        await until(lambda: reported_attempt(job) == 2, 120)
        await until(lambda: all(r.status.outcome is Outcome.HEALED for r in world.records()), 240)


async def test_a_repaired_host_stands_by_again_while_an_incident_waits_for_it() -> None:
    world = World(warm=True)
    async with playing(world):
        await ready(world)
        job = await training(world)
        world.break_gpu("gpu-1")
        await until(lambda: reported_attempt(job) == 1)
        await healed(world)
        world.faults.clear()
        world.break_gpu("gpu-2")
        await until(lambda: len(world.records()) == 2 and "spare" in world.records()[1].status.waiting_for)
        repaired = world.capacity.hosts["gpu-1"]
        repaired.phase, repaired.node, repaired.reason = "Spare", "", ""
        await until(lambda: reported_attempt(job) == 2, 60)
        await until(lambda: all(r.status.outcome is Outcome.HEALED for r in world.records()), 240)
        assert world.records()[1].status.replacement.spare_host == "gpu-1"
        assert job.restart_count == 2


async def test_a_veto_leaves_the_spare_where_it_is() -> None:
    world = World(warm=True)
    async with playing(world):
        await ready(world)
        await training(world)
        world.veto("gpu-1")
        world.break_gpu("gpu-1")
        await asyncio.sleep(30)
        assert reservation_name(spare_of(world)) in world.slurm.reservation_table
        assert world.record().status.replacement.spare_host is None


async def test_a_job_that_crashed_before_the_fence_is_released_onto_the_spare() -> None:
    world = World(warm=True)
    async with playing(world):
        await ready(world)
        job = await training(world)
        world.slurm.end_job(7, exit_code=3)
        world.break_gpu("gpu-1")
        await until(lambda: reported_attempt(job) == 1, 20)
        assert spare_of(world) in job.nodes
        await healed(world)
