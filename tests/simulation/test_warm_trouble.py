"""Warm spares when something is in the way: a lost reservation, Slurm away, an unfit spare; in memory."""

from __future__ import annotations

import asyncio

import pytest

from sparewheel.api.names import REASON_UNRESERVED
from sparewheel.remediation.decide.warm import reservation_name
from sparewheel.slurm.port import SlurmError, SlurmUnavailableError
from tests.support.job_reports import reported_attempt
from tests.support.play import healed, playing, ready, spare_of, training
from tests.support.world import World, until


async def test_a_lost_reservation_is_made_again() -> None:
    world = World(warm=True)
    async with playing(world):
        await ready(world)
        name = reservation_name(spare_of(world))
        del world.slurm.reservation_table[name]
        await until(lambda: name in world.slurm.reservation_table, 5)


async def test_a_spare_that_cannot_be_reserved_is_drained_until_it_can() -> None:
    world = World(warm=True)
    async with playing(world):
        await ready(world)
        spare = spare_of(world)
        world.slurm.fail(SlurmError("refused"), "put_reservation", times=3)
        world.slurm.reservation_table.clear()
        await until(lambda: world.slurm.node_table[spare].reason == REASON_UNRESERVED, 5)
        assert world.slurm.node_table[spare].drain
        await ready(world)


async def test_slurm_away_at_the_claim_is_waited_for() -> None:
    world = World(warm=True)
    async with playing(world):
        await ready(world)
        job = await training(world)
        world.slurm.fail(SlurmUnavailableError("away"), "delete_reservation", times=1)
        world.break_gpu("gpu-1")
        await until(lambda: reported_attempt(job) == 1, 20)
        await healed(world)


async def test_an_unfit_spare_costs_only_time() -> None:
    world = World(warm=True)
    async with playing(world):
        await ready(world)
        job = await training(world)
        world.capacity.hosts["gpu-3"].fit = False
        world.capacity.hosts["gpu-4"] = type(world.capacity.hosts["gpu-3"])("gpu-4")
        world.break_gpu("gpu-1")
        await until(lambda: reported_attempt(job) == 1, 60)
        await healed(world)
        assert world.capacity.hosts["gpu-3"].phase == "Quarantined"
        assert world.record().status.replacement.spare_host == "gpu-4"


async def test_the_second_spare_takes_over_at_once_where_the_first_fell_ill_standing_by() -> None:
    world = World(spares=2, warm=True)
    async with playing(world):
        await ready(world)
        job = await training(world, size=2)
        world.capacity.hosts["gpu-3"].fit = False
        struck = next(name for name, node in world.worker_nodes().items() if node == "gpu-1")
        fault = world.break_gpu("gpu-1")
        await until(lambda: reported_attempt(job) == 1, 20)
        assert (world.clock.now() - fault.first_seen).total_seconds() < 3.0 + 1.5 + 1.0
        record = world.record().status.replacement
        assert record.spare_host == "gpu-4"
        assert record.spare_slurm_node not in {None, struck}
        assert world.capacity.hosts["gpu-3"].owner == ""
        await healed(world)


async def test_the_spare_dies_after_it_took_over_and_the_survivor_waits_for_the_next_one() -> None:
    """Its checks fail once jobs could start on it: it goes down, and the job comes back a second time."""
    world = World(warm=True)
    async with playing(world):
        await ready(world)
        job, small = await training(world), world.submit(9, 1)
        spare = spare_of(world)
        host = world.capacity.hosts["gpu-3"]
        host.reachable = False
        world.capacity.hosts["gpu-4"] = type(host)("gpu-4")
        world.break_gpu("gpu-1")
        await until(lambda: spare in job.nodes, 10)
        host.unfit, host.reachable = "it has 7 of 8 GPUs", True
        await until(lambda: reported_attempt(job) == job.restart_count == 2, 60)
        assert spare not in job.nodes
        assert small.state == "PENDING", "no rival got in between, either time"
        await healed(world)
        assert world.record().status.replacement.spare_host == "gpu-4"


@pytest.mark.parametrize("seconds", [2.0, 15.0])
async def test_slurmctld_restarts_at_the_strike(seconds: float) -> None:
    world = World(warm=True)
    async with playing(world):
        await ready(world)
        job, small = await training(world), world.submit(9, 1)
        spare = spare_of(world)
        world.slurm.fail(SlurmUnavailableError("slurmctld restarts"), times=100_000)
        world.break_gpu("gpu-1")
        await asyncio.sleep(seconds)
        world.slurm._faults.clear()
        await until(lambda: reported_attempt(job) == 1, 30)
        assert spare in job.nodes
        assert small.state == "PENDING"
        await healed(world)


async def test_slurmctld_restarts_while_the_survivors_save() -> None:
    world = World(warm=True)
    async with playing(world):
        await ready(world)
        job, small = await training(world, save_seconds=4.0), world.submit(9, 1)
        world.break_gpu("gpu-1")
        await until(lambda: bool(job.completing))
        world.slurm.fail(SlurmUnavailableError("slurmctld restarts"), times=100_000)
        await asyncio.sleep(6)
        world.slurm._faults.clear()
        await until(lambda: reported_attempt(job) == 1, 20)
        assert small.state == "PENDING"
        await healed(world)
