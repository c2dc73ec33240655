"""A spare that was given back while a rank on it hangs: nobody takes it until that has ended; in memory."""

from __future__ import annotations

import asyncio

import pytest

from sparewheel.api.gpu_pool import GpuPool
from sparewheel.api.remediation import Outcome, Remediation
from sparewheel.api.spare_test import SpareTest, SpareTestRule
from sparewheel.cli.commands.cancel import ask_to_cancel
from sparewheel.slurm.memory import MemoryJob
from tests.support.fake_replacer import FakeHost
from tests.support.job_reports import alive_on, reported_attempt
from tests.support.play import playing, ready, spare_of, training
from tests.support.world import World, until

ALIVE = "gpu-3: it takes no work while processes of job 7 are alive on it (reboot it if they don't end)"


def newest(world: World) -> Remediation:
    return max(world.records(), key=lambda record: record.spec.fault.first_seen)


async def given_back_with_a_rank(world: World) -> tuple[MemoryJob, str]:
    """The job has come back on the warm spare when its incident is called off, and its rank there answers no signal.

    The job, which runs on all its first nodes again, and the spare's Slurm node.
    """
    await ready(world)
    job, spare = await training(world), spare_of(world)
    world.capacity.hosts["gpu-3"].reachable = False  # it can't join, so it doesn't serve yet
    world.break_gpu("gpu-1")
    world.silent.add("gpu-1")  # its worker stays for as long as the grace, so that it can be called off
    await until(lambda: spare in job.nodes and reported_attempt(job) == 1, 15)
    job.hangs = True
    await ask_to_cancel(world.kube, newest(world).metadata.name, "ada", "a false alarm", world.clock.now())
    world.silent.discard("gpu-1")
    world.heal_gpu("gpu-1", 3)
    await until(lambda: newest(world).status.outcome is Outcome.CANCELLED, 60)
    assert alive_on(world.slurm, spare) == [7]
    assert (world.capacity.hosts["gpu-3"].phase, world.capacity.hosts["gpu-3"].owner) == ("Spare", "")
    world.capacity.hosts["gpu-3"].reachable = True
    for name, node in world.slurm.node_table.items():
        if name != spare:
            node.left.clear()
    job.hangs = False
    await until(lambda: job.state == "RUNNING" and spare not in job.nodes, 60)
    await asyncio.sleep(12)
    return job, spare


async def test_a_spare_that_was_given_back_with_a_hung_rank_is_not_claimed_until_it_has_ended() -> None:
    world = World(warm=True)
    async with playing(world):
        job, spare = await given_back_with_a_rank(world)
        attempt = job.restart_count
        world.break_gpu("gpu-1", code="XID 48")
        await until(lambda: len(world.records()) == 2 and ALIVE in newest(world).status.replacement.message, 60)
        await asyncio.sleep(60)
        assert newest(world).status.replacement.claimed_at is None
        assert job.restart_count <= attempt + 1, "it was not started beside its own rank, and refused there"
        assert not world.slurm.node_table[spare].drain
        world.slurm.node_table[spare].left.clear()
        await until(lambda: newest(world).status.outcome is Outcome.HEALED, 120)
        assert newest(world).status.replacement.spare_host == "gpu-3"
        await until(lambda: reported_attempt(job) == attempt + 1)


async def test_another_spare_is_taken_at_once() -> None:
    world = World(warm=True)
    async with playing(world):
        job, _ = await given_back_with_a_rank(world)
        attempt = job.restart_count
        world.capacity.hosts["gpu-4"] = FakeHost("gpu-4")
        world.break_gpu("gpu-1", code="XID 48")
        await until(lambda: len(world.records()) == 2 and newest(world).status.outcome is Outcome.HEALED, 120)
        assert newest(world).status.replacement.spare_host == "gpu-4"
        await until(lambda: reported_attempt(job) == attempt + 1)


async def test_a_spare_that_joins_after_jobs_have_started_on_it_is_no_such_spare() -> None:
    world = World(warm=True)
    async with playing(world):
        await ready(world)
        job = await training(world)
        world.capacity.hosts["gpu-3"].reachable = False
        world.break_gpu("gpu-1")
        await until(lambda: reported_attempt(job) == 1, 40)
        await asyncio.sleep(5)
        world.capacity.hosts["gpu-3"].reachable = True
        await until(lambda: newest(world).status.outcome is Outcome.HEALED, 60)
        assert newest(world).status.replacement.refused_hosts == []
        assert reported_attempt(job) == 1, "it was not struck again"


@pytest.mark.parametrize("running", [True, False])
async def test_a_spares_own_test_job_costs_no_strike_its_spare(
    monkeypatch: pytest.MonkeyPatch, *, running: bool
) -> None:
    """Struck while the test runs, or right after it."""
    world = World(warm=True)
    world.put_pool(spare_test=SpareTestRule(timeout_seconds=30))
    host, noted, note = world.capacity.hosts["gpu-3"], list[int | None](), world.capacity.note_test

    async def noting(pool: GpuPool, name: str, test: SpareTest | int) -> None:
        noted.append(test.job_id if isinstance(test, SpareTest) else test)
        await note(pool, name, test)

    monkeypatch.setattr(world.capacity, "note_test", noting)
    async with playing(world):
        await ready(world)
        await until(lambda: host.test is not None and host.test.passed, 60)
        assert host.test is not None
        assert host.test_job_id is None
        assert noted == [host.test.job_id] * 2, "when it was begun and when it had ended"
        job = await training(world)
        host.test_job_id = 99 if running else None
        last = host.test
        assert last is not None
        host.test = last.model_copy(update={"job_id": 99, "time": world.clock.now()})
        world.slurm.node_table[spare_of(world)].left[99] = world.clock.monotonic_seconds() + 6
        await asyncio.sleep(3)
        fault = world.break_gpu("gpu-1")
        await until(lambda: reported_attempt(job) == 1, 20)
        assert (world.clock.now() - fault.first_seen).total_seconds() < 8
        assert newest(world).status.replacement.spare_host == "gpu-3"
