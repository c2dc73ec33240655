"""A controller that is killed at each write of a spare's Slurm test job; in memory."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from typing import Literal

import pytest

from sparewheel.api.remediation import Outcome
from tests.support.job_reports import reported_attempt
from tests.support.mortal import Life, mortal_controller
from tests.support.spare_test_play import probes, world_with
from tests.support.world import World, until


async def killed(die_at: int | None, when: Literal["before", "after"], *, ill: bool = False) -> tuple[World, Life]:
    world, life = world_with(warm=False, spares=2), Life(die_at=die_at, when=when)
    tasks = [asyncio.create_task(world.run())]
    leader = mortal_controller(world, life, "first")
    tasks.append(asyncio.create_task(leader.run()))
    await until(leader.leading)
    tasks.append(asyncio.create_task(world.controller("second").run()))
    job = world.submit()
    await until(lambda: reported_attempt(job) == 0)
    await asyncio.sleep(12)
    struck = next(name for name, node in world.worker_nodes().items() if node == "gpu-1")
    world.slurm.script_exits[struck] = int(ill)
    world.break_gpu("gpu-1")
    for _ in range(3000):
        await asyncio.sleep(0.1)
        if life.dead.is_set():
            tasks[1].cancel()
        if world.capacity.hosts["gpu-3"].phase == "Quarantined":
            world.slurm.script_exits[struck] = 0
        if world.records() and world.record().status.outcome is Outcome.HEALED and reported_attempt(job) == 1:
            break
    for task in tasks:
        task.cancel()
        with suppress(asyncio.CancelledError):
            await task
    return world, life


def whole(world: World, *, ill: bool) -> None:
    record = world.record().status
    assert record.outcome is Outcome.HEALED, record.model_dump_json(indent=1)
    assert record.replacement.tested_at is not None
    assert record.replacement.spare_host == ("gpu-4" if ill else "gpu-3")
    assert world.capacity.hosts["gpu-3"].phase == ("Quarantined" if ill else "Active")
    assert all(job.state not in {"RUNNING", "PENDING"} for job in probes(world))
    assert world.slurm.job_table[7].restart_count == 1


@pytest.mark.parametrize("when", ["before", "after"])
@pytest.mark.parametrize("ill", [False, True])
async def test_killed_at_each_write_of_the_test(when: Literal["before", "after"], ill: bool) -> None:
    world, life = await killed(None, when, ill=ill)
    whole(world, ill=ill)
    first = next(i for i, write in enumerate(life.writes) if write.startswith("submit_batch"))
    around = range(first - 4, min(len(life.writes), first + (10 if ill else 6)))
    for die_at in around:
        world, _ = await killed(die_at, when, ill=ill)
        whole(world, ill=ill)
