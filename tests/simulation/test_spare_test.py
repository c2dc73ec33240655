"""The Slurm test job on a spare: passes, fails, hangs, is not known; ahead of need, and in a healing."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from datetime import datetime, timedelta
from typing import Literal

import pytest

from sparewheel.api.remediation import Outcome
from sparewheel.api.spare_test import SpareTestRule
from sparewheel.remediation.decide.spare_test import TEST_PREFIX
from sparewheel.slurm.memory import MemoryJob
from sparewheel.slurm.port import SlurmError, SlurmUnavailableError
from tests.support.fake_replacer import FakeHost
from tests.support.mortal import Life, mortal_controller
from tests.support.play import healed, playing, ready, spare_of, training
from tests.support.world import World, reported_attempt, until

pytestmark = pytest.mark.looptime

ILL = 1e9


def world_with(*, warm: bool, spares: int = 1, cold: bool = True) -> World:
    world = World(warm=warm, spares=spares, grace_seconds=6)
    world.put_pool(spare_test=SpareTestRule(cold=cold, timeout_seconds=10))
    return world


def probes(world: World) -> list[MemoryJob]:
    return [job for job in world.slurm.job_table.values() if job.name.startswith(TEST_PREFIX)]


def users_only_ran_on_tested(world: World, bad_host: str) -> None:
    """No user's job was ever where the bad spare's worker was in service."""
    places = {name: node for name, node in world.worker_nodes().items() if node == bad_host}
    assert not any(set(job.nodes) & places.keys() for job in world.slurm.job_table.values() if job.user == "alice")


def left_over(world: World) -> list[str]:
    return [name for name in world.slurm.reservation_table if name.startswith(TEST_PREFIX)]


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


# -------------------------------------------------------------------- killed anywhere
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
