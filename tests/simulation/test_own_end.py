"""A user's own bug ends a job, and Slurm holds it: its user is told, after a fault had its time to be seen."""

from __future__ import annotations

import asyncio

from sparewheel.remediation.decide.own_end import MARGIN_SECONDS
from tests.support.play import healed, playing, training
from tests.support.world import World, until

WINDOW_SECONDS = 30.0
"""The policy's default ``crashed_job_window_seconds``."""


async def test_a_job_that_ended_by_its_own_fault_says_so_and_is_left_held() -> None:
    world = World()
    async with playing(world):
        job = await training(world, comment="mine")
        world.slurm.end_job(7, exit_code=3)
        await asyncio.sleep(WINDOW_SECONDS + MARGIN_SECONDS - 1)
        assert job.comment == "mine", "a fault might still claim it"
        await until(lambda: "ended by itself with exit code 3" in job.comment, 15)
        assert job.comment.startswith("mine | sparewheel: attempt 0 ")
        await asyncio.sleep(60)
        comments = [arguments for method, arguments in world.slurm.calls if method == "update_job"]
        assert len(comments) == 1, "written once"
        assert (job.state, job.held) == ("PENDING", True)
        assert not world.records()


async def test_a_job_that_a_fault_ended_is_the_faults() -> None:
    world = World()
    async with playing(world):
        job = await training(world)
        world.slurm.end_job(7, exit_code=137)
        await asyncio.sleep(20)
        world.break_gpu("gpu-1")
        await healed(world)
        await asyncio.sleep(WINDOW_SECONDS + MARGIN_SECONDS + 15)
        assert "the job's own" not in job.comment
        assert "Attempt 0 ended by itself at " in job.comment
        assert " with exit code 137, 20 s before it was seen that node gpu-1 failed: XID 79" in job.comment
        assert "taken to be the node's doing" in job.comment


async def test_a_job_that_fails_by_itself_again_after_the_fault_says_how_to_release_it() -> None:
    world = World()
    async with playing(world):
        job = await training(world)
        world.slurm.end_job(7, exit_code=3)
        await asyncio.sleep(5)
        world.break_gpu("gpu-1")
        await until(lambda: job.restart_count == 1 and job.state == "RUNNING", 60)
        world.slurm.end_job(7, exit_code=3)
        await until(lambda: "attempt 1 ended by itself with exit code 3" in job.comment, 60)
        assert "`scontrol release 7` lets it start again" in job.comment
        assert "ubmit it again" not in job.comment
        assert job.held


async def test_an_incident_that_does_not_list_the_job_delays_its_comment_and_no_more() -> None:
    """Its fault comes too late to have ended the job, and before anything was said."""
    world = World()
    async with playing(world):
        job = await training(world, comment="mine")
        world.slurm.end_job(7, exit_code=3)
        await asyncio.sleep(WINDOW_SECONDS + MARGIN_SECONDS - 2)
        world.break_gpu("gpu-1")
        await healed(world)
        assert not world.record().status.jobs
        await until(lambda: "ended by itself with exit code 3" in job.comment, 30)
        assert "nothing of the platform failed" in job.comment
        assert job.held


async def test_a_fault_of_a_dry_run_is_told_as_a_doubt() -> None:
    """Nobody judged whether it ended the job, so nothing is said to be sure."""
    world = World()
    world.put_pool(dry_run=True)
    async with playing(world):
        job = await training(world)
        world.slurm.end_job(7, exit_code=3)
        await asyncio.sleep(5)
        world.break_gpu("gpu-1")
        await until(lambda: "about then node gpu-1 failed: XID 79" in job.comment, 90)
        assert "the job's own" not in job.comment
        assert "scontrol release 7" in job.comment
        assert job.held
