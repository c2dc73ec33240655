"""The Slurm test job on a spare: passes, fails, hangs, is not known; ahead of need, and in a healing."""

from __future__ import annotations

import asyncio
from datetime import datetime, timedelta

import pytest

from sparewheel.api.remediation import Outcome
from sparewheel.remediation.decide.spare_test import TEST_PREFIX
from sparewheel.slurm.port import SlurmError, SlurmUnavailableError
from tests.support.fake_replacer import FakeHost
from tests.support.job_reports import reported_attempt
from tests.support.play import healed, playing, ready, spare_of, training
from tests.support.spare_test_play import ILL, left_over, probes, users_only_ran_on_tested, world_with
from tests.support.world import World, until


# -------------------------------------------------------------------- warm, ahead of need
async def test_a_warm_spare_is_tested_before_anything_is_wrong_and_again_within_the_hour() -> None:
    world = world_with(warm=True)
    async with playing(world):
        await ready(world)
        host = world.capacity.hosts["gpu-3"]
        await until(lambda: host.test is not None)
        assert host.test is not None
        assert host.test.passed
        (job,) = probes(world)
        assert (job.nodes, job.user, job.requeue) == ([spare_of(world)], "slurm", False)
        assert "SPAREWHEEL_GPUS=8" in job.script
        first = grown_old(host, 1760)
        await asyncio.sleep(100)
        assert (host.test.time - first).total_seconds() > 1790, "again, well within the hour"
        assert len(probes(world)) == 2
        training_job = await training(world)
        world.break_gpu("gpu-1")
        await until(lambda: reported_attempt(training_job) == 1, 20)
        assert spare_of_struck(world) == "gpu-3"
        await healed(world)


def grown_old(host: FakeHost, seconds: float) -> datetime:
    """When the host was tested, once that is said to be so long ago: as if it had stood by all the time."""
    assert host.test is not None
    host.test = host.test.model_copy(update={"time": host.test.time - timedelta(seconds=seconds)})
    return host.test.time


def spare_of_struck(world: World) -> str | None:
    return world.record().status.replacement.spare_host


@pytest.mark.parametrize("how", ["fails", "hangs"])
async def test_a_warm_spare_that_fails_is_quarantined_with_the_reason(how: str) -> None:
    world = world_with(warm=True)
    for index in range(3):
        if how == "fails":
            world.slurm.script_exits[f"gpu-{index}"] = 1
        else:
            world.slurm.script_seconds[f"gpu-{index}"] = ILL
    async with playing(world):
        host = world.capacity.hosts["gpu-3"]
        await until(lambda: host.phase == "Quarantined")
        assert "its Slurm test job: Slurm test job" in host.reason
        assert ("exit code 1" if how == "fails" else "did not end within 10 s") in host.reason
        assert all(job.state not in {"RUNNING", "PENDING"} for job in probes(world))


async def test_a_test_that_fails_everywhere_costs_one_spare_only() -> None:
    world = world_with(warm=True, spares=3)
    for index in range(5):
        world.slurm.script_exits[f"gpu-{index}"] = 1
    async with playing(world):
        await asyncio.sleep(120)
        phases = [host.phase for host in world.capacity.hosts.values()]
        assert phases.count("Quarantined") == 1
        untested = [host for host in world.capacity.hosts.values() if host.phase == "Spare"]
        assert len(untested) == 2
        assert all(
            one.test is not None and not one.test.passed and "failed its test as well" in one.test.message
            for one in untested
        )


@pytest.mark.parametrize("exit_code", [126, 127])
async def test_a_command_that_cannot_be_run_is_no_fault_of_the_spare_and_no_pass(exit_code: int) -> None:
    world = world_with(warm=True)
    for index in range(3):
        world.slurm.script_exits[f"gpu-{index}"] = exit_code
    async with playing(world):
        await ready(world)
        host = world.capacity.hosts["gpu-3"]
        await until(lambda: host.test is not None)
        assert host.test is not None
        assert (host.phase, host.test.passed) == ("Spare", False)
        assert "could not run its command" in host.test.message
        await training(world)
        world.break_gpu("gpu-1")
        await until(lambda: bool(world.records()))
        await asyncio.sleep(3)
        assert world.record().status.replacement.spare_slurm_node is None, "it does not take over at the strike"


async def test_slurmctld_away_is_no_pass() -> None:
    world = world_with(warm=True)
    async with playing(world):
        await ready(world)
        host = world.capacity.hosts["gpu-3"]
        await until(lambda: host.test is not None)
        assert host.test is not None
        world.slurm.fail(SlurmUnavailableError("slurmctld is away"), times=10**9)
        first = grown_old(host, 1760)
        await asyncio.sleep(140)
        assert host.test.time == first, "nothing was noted while nothing was known"
        assert world.records() == [], "no node is lost whose agent and kubelet are well"
        assert host.phase == "Spare"
        world.slurm._faults.clear()
        await until(lambda: host.test is not None and host.test.time > first)
        assert host.test.passed


async def test_a_refused_submission_is_noted_and_tried_again() -> None:
    world = world_with(warm=True)
    world.slurm.fail(SlurmError("submit: 500 Access denied"), "submit_batch", times=2)
    async with playing(world):
        await ready(world)
        host = world.capacity.hosts["gpu-3"]
        await until(lambda: host.test is not None)
        assert host.test is not None
        assert not host.test.passed
        assert "Access denied" in host.test.message
        await until(lambda: host.test is not None and host.test.passed, 900)
        assert host.phase == "Spare"


# -------------------------------------------------------------------- cold, in a healing
async def test_a_cold_spare_is_tested_before_users_work_may_run_there() -> None:
    world = world_with(warm=False)
    async with playing(world):
        job, rival = await training(world), world.submit(8, 1)
        world.break_gpu("gpu-1")
        await healed(world)
        (test,) = probes(world)
        assert test.state == "COMPLETED"
        record = world.record().status.replacement
        assert record.tested_at is not None
        assert test.end_time is not None
        assert job.start_time is not None
        assert test.end_time <= job.start_time
        await until(lambda: reported_attempt(job) == 1)
        assert rival.state == "PENDING"
        assert left_over(world) == []


async def test_without_jobs_to_hold_for_the_spare_has_a_reservation_of_its_own() -> None:
    world = world_with(warm=False)
    async with playing(world):
        world.break_gpu("gpu-1")
        await until(lambda: bool(probes(world)), 60)
        name = probes(world)[0].reservation
        assert name.startswith(TEST_PREFIX)
        eager = world.submit(9, 2)
        await asyncio.sleep(0.3)
        assert eager.state == "PENDING", "not before the test has passed"
        await healed(world)
        assert left_over(world) == []
        await until(lambda: eager.state == "RUNNING", 10)


@pytest.mark.parametrize("how", ["fails", "hangs"])
async def test_a_cold_spare_that_fails_is_quarantined_and_another_takes_its_place(how: str) -> None:
    world = world_with(warm=False, spares=2)
    async with playing(world):
        job = await training(world)
        struck = next(name for name, node in world.worker_nodes().items() if node == "gpu-1")
        if how == "fails":
            world.slurm.script_exits[struck] = 3
        else:
            world.slurm.script_seconds[struck] = ILL
        world.break_gpu("gpu-1")
        await until(lambda: world.capacity.hosts["gpu-3"].phase == "Quarantined", 90)
        users_only_ran_on_tested(world, "gpu-3")
        assert world.slurm.node_table[struck].down
        world.slurm.script_exits.clear()
        world.slurm.script_seconds.clear()
        await healed(world)
        record = world.record().status.replacement
        assert (record.spare_host, record.refused_hosts) == ("gpu-4", ["gpu-3"])
        assert ("exit code 3" if how == "fails" else "did not end within 10 s") in world.capacity.hosts["gpu-3"].reason
        await until(lambda: reported_attempt(job) == 1, 60)
        assert left_over(world) == []


async def test_a_cold_spare_whose_test_is_refused_is_passed_over_and_not_blamed() -> None:
    world = world_with(warm=False, spares=2)
    world.slurm.fail(SlurmError("submit: 500 Access denied"), "submit_batch", times=1)
    async with playing(world):
        await training(world)
        world.break_gpu("gpu-1")
        await healed(world)
        assert world.record().status.replacement.spare_host == "gpu-4"
        assert world.capacity.hosts["gpu-3"].phase == "Spare"


async def test_slurmctld_away_during_the_test_is_waited_for() -> None:
    world = world_with(warm=False)
    async with playing(world):
        await training(world)
        world.break_gpu("gpu-1")
        await until(lambda: bool(probes(world)), 60)
        world.slurm.fail(SlurmUnavailableError("slurmctld is away"), times=10**9)
        await asyncio.sleep(45)
        assert world.record().status.replacement.tested_at is None
        assert world.record().status.outcome is Outcome.OPEN
        world.slurm._faults.clear()
        await healed(world)


async def test_cold_spares_are_not_tested_unless_that_is_said() -> None:
    world = world_with(warm=False, cold=False)
    async with playing(world):
        await training(world)
        world.break_gpu("gpu-1")
        await healed(world)
        assert probes(world) == []
