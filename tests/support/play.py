"""Plays a world with a controller for the length of a block."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager, suppress
from typing import Any

from sparewheel.api.remediation import Outcome
from sparewheel.remediation.controller.loop import Controller
from sparewheel.slurm.memory import MemoryJob
from tests.support.world import World, reported_attempt, until


@asynccontextmanager
async def playing(world: World, controller: Controller | None = None) -> AsyncGenerator[Controller, None]:
    """Physics and one controller, both ended with the block."""
    controller = controller or world.controller()
    tasks = [asyncio.create_task(world.run()), asyncio.create_task(controller.run())]
    try:
        await until(lambda: len(world.slurm.node_table) == world.workers and controller.leading())
        await asyncio.sleep(5)
        yield controller
    finally:
        for task in tasks:
            task.cancel()
        for task in tasks:
            with suppress(asyncio.CancelledError):
                await task


async def training(world: World, job_id: int = 7, **fields: Any) -> MemoryJob:
    """A job that runs over all nodes and has reported its first step."""
    job = world.submit(job_id, **fields)
    await until(lambda: reported_attempt(job) == 0)
    await asyncio.sleep(12)
    return job


async def healed(world: World, seconds: float = 180.0) -> None:
    await until(lambda: bool(world.records()) and world.record().status.outcome is Outcome.HEALED, seconds)


def deletions(world: World) -> list[str]:
    return [f"{call.verb} {call.name}" for call in world.kube.writes if call.verb in {"delete", "evict"}]


def waits_for(world: World) -> str:
    return world.record().status.waiting_for if world.records() else ""
