"""A struck job's survivors are kept from rivals of any size until it can start again, and never for ever; in memory."""

from __future__ import annotations

import asyncio

from sparewheel.api.names import NAMESPACE
from sparewheel.api.remediation import Outcome
from sparewheel.kube.port import REMEDIATION
from sparewheel.remediation.decide.survivors import HELD, NO_SPARE, hold_name
from sparewheel.slurm.port import SlurmError, SlurmUnavailableError
from tests.support.job_reports import reported_attempt
from tests.support.play import healed, playing, training
from tests.support.world import World, until


def held(world: World) -> set[str]:
    """Slurm nodes behind a hold."""
    table = world.slurm.reservation_table
    return {node for record in world.records() for node in _nodes(world, hold_name(record.metadata.name)) if table}


def _nodes(world: World, reservation: str) -> tuple[str, ...]:
    found = world.slurm.reservation_table.get(reservation)
    return found.nodes if found is not None else ()


async def test_a_small_rival_gets_no_survivor_while_the_spare_joins() -> None:
    world = World()
    async with playing(world):
        job = await training(world, save_seconds=3.0)
        small = world.submit(9, 1)
        world.break_gpu("gpu-1")
        await until(lambda: bool(job.completing))
        assert held(world) == {"gpu-0", "gpu-1"}, "the survivor, and the struck name, which comes back behind it"
        await until(lambda: reported_attempt(job) == 1)
        assert small.state == "PENDING"
        assert not world.slurm.reservation_table
        await healed(world)
        assert world.record().status.replacement.lifted_at is not None
        assert not world.record().status.owned.held_nodes
        assert job.restart_count == 1


async def test_where_another_node_is_free_the_job_does_not_wait_for_the_spare() -> None:
    world = World(replicas=3)
    async with playing(world):
        job = await training(world, size=2, save_seconds=3.0)
        struck = next(node for name, node in world.worker_nodes().items() if name in job.nodes)
        world.capacity.hosts["gpu-4"].reachable = False
        world.break_gpu(struck)
        await until(lambda: reported_attempt(job) == 1, 15)
        assert not world.slurm.reservation_table


async def test_without_a_spare_the_survivors_are_given_back() -> None:
    world = World(spares=0)
    async with playing(world):
        job = await training(world, save_seconds=3.0)
        small = world.submit(9, 1)
        world.break_gpu("gpu-1")
        await until(lambda: job.state == "PENDING" and not job.completing)
        await until(lambda: small.state == "RUNNING", NO_SPARE.total_seconds() + 5)
        assert not world.slurm.reservation_table
        world.slurm.end_job(9)
        world.capacity.hosts["gpu-4"] = type(world.capacity.hosts["gpu-1"])("gpu-4")
        await until(lambda: reported_attempt(job) == 1)
        await healed(world)


async def test_a_hold_ends_by_itself_when_no_controller_is_there() -> None:
    world = World()
    physics = asyncio.create_task(world.run())
    small = world.submit(9, 1)
    small.state = "COMPLETED"
    async with playing(world):
        job = await training(world, save_seconds=3.0)
        world.capacity.hosts["gpu-3"].reachable = False
        world.break_gpu("gpu-1")
        await until(lambda: job.state == "PENDING" and bool(held(world)))
    small.state = "PENDING"
    await asyncio.sleep(HELD.total_seconds() - 25)
    await world.slurm.jobs()
    assert small.state == "PENDING"
    await asyncio.sleep(30)
    await world.slurm.jobs()
    assert small.state == "RUNNING"
    physics.cancel()


async def test_a_hold_is_renewed_for_as_long_as_the_spare_takes() -> None:
    world = World()
    async with playing(world):
        job = await training(world, save_seconds=3.0)
        small = world.submit(9, 1)
        world.capacity.hosts["gpu-3"].reachable = False
        world.break_gpu("gpu-1")
        await asyncio.sleep(3 * HELD.total_seconds())
        assert small.state == "PENDING"
        world.capacity.hosts["gpu-3"].reachable = True
        await until(lambda: reported_attempt(job) == 1)
        assert small.state == "PENDING"
        await healed(world)


async def test_called_off_the_survivors_are_free_at_once() -> None:
    world = World()
    async with playing(world):
        job = await training(world, save_seconds=3.0)
        world.capacity.hosts["gpu-3"].reachable = False
        world.break_gpu("gpu-1")
        await until(lambda: bool(held(world)))
        world.uncordon("gpu-1")
        await until(lambda: world.record().status.outcome is Outcome.CANCELLED, 10)
        assert not world.slurm.reservation_table
        await until(lambda: reported_attempt(job) == 1)


async def test_where_the_record_is_deleted_its_hold_goes_too() -> None:
    world = World()
    async with playing(world):
        job = await training(world, save_seconds=3.0)
        world.capacity.hosts["gpu-3"].reachable = False
        world.break_gpu("gpu-1")
        await until(lambda: bool(held(world)) and job.state == "PENDING")
        world.faults.clear()
        world.kube.drop(REMEDIATION, world.record().metadata.name, NAMESPACE)
        await until(lambda: not world.slurm.reservation_table, 10)


async def test_a_hold_that_is_refused_costs_the_place_and_nothing_else() -> None:
    world = World()
    async with playing(world):
        job = await training(world, save_seconds=3.0)
        world.slurm.fail(SlurmError("refused"), "put_reservation", times=100)
        world.break_gpu("gpu-1")
        await until(lambda: reported_attempt(job) == 1)
        await healed(world)


async def test_slurm_away_at_the_strike_the_hold_is_made_before_it_all_the_same() -> None:
    world = World()
    async with playing(world):
        job = await training(world, save_seconds=3.0)
        small = world.submit(9, 1)
        world.slurm.fail(SlurmUnavailableError("away"), times=12)
        world.break_gpu("gpu-1")
        await until(lambda: reported_attempt(job) == 1)
        assert small.state == "PENDING"
        calls = [name for name, _ in world.slurm.calls if name in {"put_reservation", "set_node_state"}]
        assert calls.index("put_reservation") < calls.index("set_node_state")
        await healed(world)
