"""The spare is given up once jobs run on it: they are struck a second time, and their users hear of that too."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from sparewheel.api.remediation import JobRecord
from sparewheel.api.remediation_policy import RemediationPolicySpec
from sparewheel.api.routes import Audience, WebhookRoute
from sparewheel.kube.port import REMEDIATION
from sparewheel.remediation.decide.job_records import struck_again
from sparewheel.slurm.memory import MemorySlurm
from sparewheel.slurm.memory_objects import MemoryJob
from tests.support.fake_replacer import FakeHost
from tests.support.job_reports import reported_attempt
from tests.support.play import healed, playing, ready, spare_of, training
from tests.support.world import World, until


def of_the_spare(world: World) -> list[dict[str, Any]]:
    return [one for one in world.receiver.of("incident.worse") if "was given up" in one["title"]]


async def on_the_spare(world: World) -> tuple[MemoryJob, FakeHost]:
    """A job that was struck and runs on the spare by now, and the spare's host, which can't be looked at."""
    await ready(world)
    job = await training(world)
    spare = spare_of(world)
    host = world.capacity.hosts["gpu-3"]
    host.reachable = False
    world.break_gpu("gpu-1")
    await until(lambda: spare in job.nodes, 10)
    return job, host


async def test_the_user_hears_of_the_second_strike_too() -> None:
    """The job was back, told and closed when the spare that it ran on was given up."""
    world = World(warm=True)
    async with playing(world):
        job, host = await on_the_spare(world)
        await until(lambda: any(one.closed for one in world.record().status.jobs), 30)
        await until(lambda: len(world.receiver.of("job.resumed")) == 1)
        host.unfit, host.reachable = "it has 7 of 8 GPUs", True
        await until(lambda: job.state == "PENDING", 60)
        await until(lambda: "the spare that it ran on was given up" in job.comment, 10)
        await until(lambda: len(of_the_spare(world)) == 1, 10)
        (told,) = of_the_spare(world)
        assert told["text"].startswith("Spare gpu-3 was given up after jobs had started on it")
        assert "the spare that it ran on was given up" in told["jobs"][0]["what"]
        world.warm_up("gpu-4")
        await until(lambda: reported_attempt(job) == job.restart_count == 2, 60)
        await until(lambda: len(world.receiver.of("job.resumed")) == 2, 10)
        first, second = world.receiver.of("job.resumed")
        assert "Attempt 0 ended" in first["text"]
        assert "Attempt 1 ended" in second["text"]
        assert "Attempt 2 resumed from step 200" in second["text"]
        (record,) = world.record().status.jobs
        assert (record.strike, record.attempt_before, record.attempt_after) == (2, 1, 2)
        assert record.resumed_at is not None
        await healed(world)


@pytest.mark.parametrize("after_seconds", [1, 6])
async def test_a_job_that_the_spare_ended_before_it_was_given_up_comes_back(after_seconds: float) -> None:
    """Slurm requeues it and holds it, as one that ended by its own fault."""
    world = World(warm=True)
    async with playing(world):
        job, host = await on_the_spare(world)
        await asyncio.sleep(after_seconds)
        world.slurm.end_job(job.job_id, exit_code=1)
        host.unfit, host.reachable = "it has 7 of 8 GPUs", True
        await until(lambda: not job.held, 30)
        world.warm_up("gpu-4")
        await until(lambda: reported_attempt(job) == job.restart_count == 2, 60)
        await healed(world)
        (record,) = world.record().status.jobs
        assert (record.strike, record.crashed_by_itself, record.attempt_before) == (2, True, 1)
        assert record.hosts_before == ["gpu-2", "gpu-3"]


async def test_a_job_that_the_spare_ended_before_another_controller_took_over_comes_back() -> None:
    """It was no job of the incident's: it found room on the spare, and only the first controller saw it there."""
    world = World(warm=True)
    async with playing(world):
        await ready(world)
        struck = world.submit(7, 1, batch=False, expedited=False)
        world.submit(8, 1)
        await until(lambda: struck.nodes == ["gpu-0"])
        spare, host = spare_of(world), world.capacity.hosts["gpu-3"]
        host.reachable = False
        world.break_gpu(world.worker_nodes()["gpu-0"])
        stranger = world.submit(9, 1)
        await until(lambda: stranger.nodes == [spare], 30)
        await asyncio.sleep(10)
    world.slurm.end_job(9, exit_code=1)
    assert stranger.held
    async with playing(world, world.controller("two")):
        host.unfit, host.reachable = "it has 7 of 8 GPUs", True
        await until(lambda: not stranger.held, 40)
        (record,) = [one for one in world.record().status.jobs if one.job_id == 9]
        assert (record.strike, record.crashed_by_itself, record.hosts_before) == (2, True, ["gpu-3"])


async def test_a_job_that_ended_long_before_its_spare_was_given_up_stays_held() -> None:
    world = World(warm=True)
    async with playing(world):
        job, host = await on_the_spare(world)
        await asyncio.sleep(6)
        world.slurm.end_job(job.job_id, exit_code=1)
        await asyncio.sleep(60)
        host.unfit, host.reachable = "it has 7 of 8 GPUs", True
        await until(lambda: len(of_the_spare(world)) == 1, 30)
        await asyncio.sleep(10)
        assert job.held


async def test_a_job_that_is_struck_again_while_its_return_is_written_down_is_not_told_to_be_back(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    world = World()
    update = MemorySlurm.update_job

    async def struck_meanwhile(slurm: MemorySlurm, job_id: int, **fields: Any) -> None:
        """Between the look at the job and the line that closes it."""
        await update(slurm, job_id, **fields)
        record = world.record()
        if "resumed" in str(fields.get("comment", "")) and record.status.jobs[0].strike == 1:
            found = [JobRecord(job_id=job_id, user="alice", attempt_before=1)]
            record.status = struck_again(found, world.clock.now())(record.status)
            world.kube.put(REMEDIATION, record.to_wire(), "sparewheel")

    monkeypatch.setattr(MemorySlurm, "update_job", struck_meanwhile)
    async with playing(world):
        await training(world)
        world.break_gpu("gpu-1")
        await until(lambda: bool(world.records()) and [one.strike for one in world.record().status.jobs] == [2], 60)
        await asyncio.sleep(5)
        assert world.receiver.of("job.resumed") == []


async def test_the_other_part_of_a_heterogeneous_job_is_listed_though_it_ran_elsewhere() -> None:
    """Slurm ends and requeues such a job as a whole. It found room on the spare."""
    world = World(warm=True)
    async with playing(world):
        await ready(world)
        struck = world.submit(7, 1, batch=False, expedited=False)
        elsewhere = world.submit(8, 1)
        await until(lambda: (struck.nodes, elsewhere.nodes) == (["gpu-0"], ["gpu-1"]))
        spare, host = spare_of(world), world.capacity.hosts["gpu-3"]
        host.reachable = False
        world.break_gpu(world.worker_nodes()["gpu-0"])
        first = world.submit(90, 1, het_job_id=90, expedited=False)
        await until(lambda: first.nodes == [spare], 30)
        world.slurm.cancel(elsewhere.job_id)
        second = world.submit(91, 1, het_job_id=90, expedited=False)
        await until(lambda: second.nodes == ["gpu-1"])
        host.unfit, host.reachable = "it has 7 of 8 GPUs", True
        await until(lambda: len(of_the_spare(world)) == 1, 60)
        struck_twice = {one.job_id for one in world.record().status.jobs if one.strike == 2}
        assert struck_twice == {90, 91}
        assert (first.restart_count, second.restart_count) == (1, 1)


async def test_only_the_owners_of_jobs_that_the_spare_ended_hear_of_it() -> None:
    world = World(warm=True)
    (hook,) = world.routes
    owners = WebhookRoute.model_validate(hook.model_dump() | {"name": "owners", "audience": Audience.OWNER})
    world.put_policy(RemediationPolicySpec(routes=[hook, owners]))
    async with playing(world):
        job, host = await on_the_spare(world)
        host.unfit, host.reachable = "it has 7 of 8 GPUs", True
        await until(lambda: len(of_the_spare(world)) == 2, 60)
        (told,) = [one for one in world.receiver.by_route["owners"] if one["event"] == "incident.worse"]
        assert [row["jobId"] for row in told["jobs"]] == [job.job_id]
        assert "they start again" not in told["text"], "each job's row says what becomes of it"
