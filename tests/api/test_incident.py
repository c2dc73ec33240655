"""One incident on a real API server with the real capacity code: killed at every stage and resumed; lease fail-over."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from typing import Any

import pytest

from sparewheel.api.names import CONTROLLER_LEASE
from sparewheel.api.remediation import NodeStage, Outcome, Remediation
from sparewheel.kube.client import KubeClient
from sparewheel.kube.port import LEASE, NODE
from sparewheel.remediation.controller.loop import Controller
from sparewheel.remediation.decide.record import ended, started
from tests.api.incident_world import SIZE, ApiWorld
from tests.support.job_reports import reported_attempt
from tests.support.mortal import Life

pytestmark = pytest.mark.timeout(120)


async def until(holds: Callable[[], Awaitable[bool]], seconds: float = 60.0, every: float = 0.1) -> None:
    async with asyncio.timeout(seconds):
        while not await holds():  # noqa: ASYNC110 - the API server is asked
            await asyncio.sleep(every)


@asynccontextmanager
async def a_world(kube: KubeClient) -> AsyncIterator[ApiWorld]:
    world = ApiWorld(kube)
    await world.set_up()
    physics = asyncio.create_task(world.run())
    try:
        yield world
    finally:
        physics.cancel()
        with suppress(asyncio.CancelledError):
            await physics
        for body in (await kube.list(NODE, label_selector={"test/pool": world.pool})).items:
            await kube.delete(NODE, body["metadata"]["name"])


@pytest.fixture
async def world(kube: KubeClient, crds: None) -> AsyncIterator[ApiWorld]:
    async with a_world(kube) as world:
        yield world


class Replicas:
    """Controllers as tasks; a kill takes effect between two writes, or at one."""

    def __init__(self, world: ApiWorld) -> None:
        self.world = world
        self.tasks: list[asyncio.Task[None]] = []
        self.lives: list[Life] = []
        self.controllers: list[Controller] = []

    def start(self) -> Controller:
        life = Life()
        controller = self.world.controller(f"replica-{len(self.tasks)}", life)
        self.lives.append(life)
        self.controllers.append(controller)
        self.tasks.append(asyncio.create_task(controller.run()))
        return controller

    async def kill(self, index: int) -> None:
        """As kill -9: no word to anybody, its lease is left to run out."""
        self.lives[index].dead.set()
        self.tasks[index].cancel()
        with suppress(asyncio.CancelledError, Exception):
            await self.tasks[index]

    async def stop(self) -> None:
        for index in range(len(self.tasks)):
            await self.kill(index)


@pytest.fixture
async def replicas(world: ApiWorld) -> AsyncIterator[Replicas]:
    replicas = Replicas(world)
    yield replicas
    await replicas.stop()


async def running_job(world: ApiWorld) -> Any:
    """The pool filled by the controller's own capacity code, workers registered, a job on all of them."""

    async def filled() -> bool:
        return len(world.slurm.node_table) == SIZE and len(await world.workers()) == SIZE

    await until(filled)
    job = world.submit()

    async def trains() -> bool:
        return reported_attempt(job) == 0

    await until(trains)
    return job


async def the_record(world: ApiWorld) -> Remediation | None:
    records = await world.records()
    return records[0] if records else None


async def through(world: ApiWorld) -> None:
    async def done() -> bool:
        record = await the_record(world)
        return (
            record is not None
            and record.status.outcome is Outcome.HEALED
            and all(job.closed for job in record.status.jobs)
            and all(delivery.delivered_at for delivery in record.status.outbox)
        )

    try:
        await until(done, 75)
    except TimeoutError:
        record = await the_record(world)
        pytest.fail(f"not healed: {record.status.model_dump_json() if record else None}")


async def check(world: ApiWorld, bad: str, job: Any) -> None:
    record = await the_record(world)
    assert record is not None
    assert job.restart_count == 1
    assert job.state == "RUNNING"
    phases = await world.phases()
    assert phases[bad] == "Quarantined"
    assert sorted(phases.values()) == ["Active", "Active", "Quarantined"]
    assert bad not in (await world.workers()).values()
    assert not any(node.down or node.drain for node in world.slurm.node_table.values())
    passed = [stage for stage in NodeStage if stage not in {NodeStage.VETOED, NodeStage.MENDED}]
    assert all(ended(record.status, stage) for stage in passed)
    kinds = sorted(event["event"] for event in world.receiver.events.values())
    assert kinds == ["incident.closed", "incident.detected", "job.resumed"], "each told once"


async def test_an_incident_from_fault_to_healed(world: ApiWorld, replicas: Replicas) -> None:
    replicas.start()
    job = await running_job(world)
    bad = next(iter((await world.workers()).values()))
    world.break_gpu(bad)
    await through(world)
    await check(world, bad, job)
    record = await the_record(world)
    assert record is not None
    (followed,) = record.status.jobs
    assert bad in followed.hosts_before
    assert bad not in followed.hosts_after
    assert len(followed.hosts_after) == SIZE
    assert followed.resumed_from_step == 100


KILLS = (NodeStage.DETECTED, NodeStage.FENCED, NodeStage.DRAINED, NodeStage.REPLACED, "admitted")


AT_ONCE = 2
"""Worlds side by side: more in one process, and leases run out for want of a turn."""


async def play_killed_at(kube: KubeClient, stage: NodeStage | str, turn: asyncio.Semaphore) -> None:
    async with turn, a_world(kube) as world:
        replicas = Replicas(world)
        try:
            await killed_at(world, replicas, stage)
        finally:
            await replicas.stop()


async def killed_at(world: ApiWorld, replicas: Replicas, stage: NodeStage | str) -> None:
    leader = replicas.start()

    async def leads() -> bool:
        return leader.leading()

    await until(leads)
    replicas.start()
    job = await running_job(world)
    bad = next(iter((await world.workers()).values()))
    world.break_gpu(bad)

    async def reached() -> bool:
        record = await the_record(world)
        if record is None:
            return False
        if isinstance(stage, NodeStage):
            return started(record.status, stage)
        return getattr(record.status.replacement, f"{stage}_at") is not None

    await until(reached, 30, every=0.02)
    await replicas.kill(0)
    await through(world)
    await check(world, bad, job)


@pytest.mark.timeout(240)
async def test_killed_at_every_stage_and_finished_by_the_other_replica(kube: KubeClient, crds: None) -> None:
    """Five incidents, two side by side, each in a namespace of its own and with its leader killed at another point."""
    turn = asyncio.Semaphore(AT_ONCE)
    ends = await asyncio.gather(*(play_killed_at(kube, stage, turn) for stage in KILLS), return_exceptions=True)
    failures = [f"killed at {stage}: {end!r}" for stage, end in zip(KILLS, ends, strict=True) if end is not None]
    assert not failures, "\n".join(failures)


async def test_the_other_replica_takes_over_within_ten_seconds(world: ApiWorld, replicas: Replicas) -> None:
    first = replicas.start()

    async def first_leads() -> bool:
        return first.leading()

    await until(first_leads)
    second = replicas.start()
    await asyncio.sleep(1.5)
    assert not second.leading(), "one leads"
    await replicas.kill(0)

    async def second_leads() -> bool:
        return second.leading()

    await until(second_leads, 10)
    lease = await world.kube.get(LEASE, CONTROLLER_LEASE, world.space)
    assert lease["spec"]["holderIdentity"] == "replica-1"


async def test_two_controllers_at_once_make_one_record(world: ApiWorld, replicas: Replicas) -> None:
    """Were both to lead for a moment, the name of the record decides."""
    from sparewheel.remediation.stages.detected import create
    from tests.support.incidents import remediation

    record = remediation("same-name")
    made = await asyncio.gather(*(create(world.kube, world.space, record.metadata.name, record.spec) for _ in range(5)))
    assert len({one.metadata.uid for one in made}) == 1
