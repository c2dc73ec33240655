"""Another machine takes the name of the struck one: it serves, nothing is retired, and no spare stays claimed."""

from __future__ import annotations

import asyncio

import pytest

from sparewheel.api.gpu_host import GpuHost
from sparewheel.api.gpu_pool import GpuPool
from sparewheel.api.remediation import Outcome
from sparewheel.kube.port import NODE, POD
from tests.support.fake_replacer import FakeHost, put_node
from tests.support.job_reports import reported_attempt
from tests.support.play import playing, training
from tests.support.world import World, until


def put_machine(world: World, number: int, *, cordoned: bool = False) -> None:
    """Node gpu-1 on this machine."""
    put_node(world.kube, "gpu-1", "gpu", [])
    body = world.node("gpu-1")
    body["spec"]["providerID"], body["spec"]["unschedulable"] = f"cloud://{number}", cordoned
    world.kube.put(NODE, body)


async def worker_goes(world: World) -> None:
    """As the API server does for a Node that is no more; five seconds on."""
    for pod in [pod["metadata"]["name"] for pod in world._workers() if pod["spec"].get("nodeName") == "gpu-1"]:
        world.kube.drop(POD, pod, "slurm")
    await asyncio.sleep(5)


async def removed_without_a_spare(world: World) -> None:
    """Node gpu-1 is deleted by somebody, and its incident waits for a spare."""
    await training(world)
    world.kube.drop(NODE, "gpu-1")
    await until(lambda: bool(world.records()) and "spare" in world.record().status.replacement.message)
    await worker_goes(world)


@pytest.mark.parametrize("why", ["a fault", "a removal"])
@pytest.mark.parametrize("warm", [True, False])
async def test_another_machine_under_the_struck_name_serves_and_the_incident_ends(why: str, warm: bool) -> None:
    world = World(spares=0, warm=warm)
    put_machine(world, 1)
    async with playing(world):
        job = await training(world)
        if why == "a fault":
            world.break_gpu("gpu-1")
        else:
            world.kube.drop(NODE, "gpu-1")
        await until(lambda: bool(world.records()) and "spare" in world.record().status.replacement.message)
        world.faults.clear()
        if why == "a fault":
            world.kube.drop(NODE, "gpu-1")
        await worker_goes(world)
        put_machine(world, 2)
        await until(lambda: world.record().status.outcome is Outcome.SUPERSEDED, 60)
        assert "another machine took the node's name" in world.record().status.message
        await until(lambda: reported_attempt(job) == 1)
        assert not any(node.down or node.drain for node in world.slurm.node_table.values())
        assert not world.node("gpu-1")["spec"].get("unschedulable")
        assert world.capacity.log == []


async def test_another_machine_that_comes_once_a_spare_is_on_its_way_is_not_retired() -> None:
    world = World(spares=1)
    put_machine(world, 1)
    async with playing(world):
        job = await training(world)
        world.capacity.hosts["gpu-3"].reachable = False
        world.kube.drop(NODE, "gpu-1")
        await until(lambda: bool(world.records()) and world.record().status.replacement.claimed_at is not None, 80)
        await asyncio.sleep(5)
        put_machine(world, 2)
        world.capacity.hosts["gpu-3"].reachable = True
        await until(lambda: world.record().status.outcome is Outcome.SUPERSEDED, 60)
        await until(lambda: reported_attempt(job) == 1)
        assert ("retire", "gpu-1") not in world.capacity.log
        assert (world.capacity.hosts["gpu-3"].phase, world.capacity.hosts["gpu-3"].owner) == ("Active", "")
        assert world.kube.peek(NODE, "gpu-1") is not None


async def test_no_spare_is_claimed_once_another_machine_has_the_name() -> None:
    world = World(spares=0)
    put_machine(world, 1)
    async with playing(world):
        await removed_without_a_spare(world)
        put_machine(world, 2, cordoned=True)  # its worker is not there yet
        await asyncio.sleep(15)
        world.capacity.hosts["gpu-9"] = FakeHost("gpu-9", "Spare", "")
        await asyncio.sleep(60)
        assert world.capacity.hosts["gpu-9"].owner == ""
        world.uncordon("gpu-1")
        await until(lambda: world.record().status.outcome is Outcome.SUPERSEDED, 60)
        assert world.capacity.log == []


async def test_a_spare_that_is_claimed_just_as_the_incident_ends_is_let_go(monkeypatch: pytest.MonkeyPatch) -> None:
    world = World(spares=0)
    put_machine(world, 1)
    listed, late = world.capacity.pool_hosts, FakeHost("gpu-9", "Spare", "")

    async def claimed_after(pool: GpuPool) -> list[GpuHost]:
        """The search for a spare, beside the end of the incident, is a moment later than its look for claims."""
        found = await listed(pool)
        if world.record().status.owned.slurm_down == [] and late.name not in world.capacity.hosts:
            late.owner = f"remediation/{world.record().metadata.name}"
            world.capacity.hosts[late.name] = late
        return found

    async with playing(world):
        await removed_without_a_spare(world)
        monkeypatch.setattr(world.capacity, "pool_hosts", claimed_after)
        put_machine(world, 2)
        await until(lambda: world.record().status.outcome is Outcome.SUPERSEDED, 60)
        assert (late.name in world.capacity.hosts, late.owner, late.phase) == (True, "", "Spare")
