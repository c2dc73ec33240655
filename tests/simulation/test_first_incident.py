"""One incident from fault to healed, in memory, with real stages and a real controller."""

from __future__ import annotations

import asyncio

import pytest

from sparewheel.api.remediation import NodeStage, Outcome
from sparewheel.remediation.decide.record import ended
from tests.support.world import World, reported_attempt, until


@pytest.mark.looptime
async def test_a_gpu_dies_and_the_training_goes_on() -> None:
    world = World()
    physics = asyncio.create_task(world.run())
    controller = asyncio.create_task(world.controller().run())
    job = world.submit()
    await until(lambda: reported_attempt(job) == 0)
    await asyncio.sleep(5)
    world.break_gpu("gpu-1")
    await until(lambda: bool(world.records()) and world.record().status.outcome is Outcome.HEALED)
    await until(lambda: world.record().status.jobs[0].closed)
    record = world.record()
    print(record.model_dump_json(indent=1, exclude_none=True))
    print(job.comment)
    for task in (controller, physics):
        task.cancel()
    assert all(ended(record.status, stage) for stage in NodeStage if stage is not NodeStage.VETOED)
