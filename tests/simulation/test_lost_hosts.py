"""A host that is lost, or only silent; in memory."""

from __future__ import annotations

import asyncio

from sparewheel.kube.port import UnavailableError
from tests.support.job_reports import reported_attempt
from tests.support.play import healed, playing, ready, training, waits_for
from tests.support.world import World, until


async def test_a_lost_host_that_is_off_is_replaced_without_waiting_for_the_grace() -> None:
    world = World(grace_seconds=100)
    async with playing(world):
        job = await training(world)
        world.lose("gpu-1", power="off")
        await until(lambda: bool(world.records()), 90)
        assert world.record().spec.fault.code == "NODE_LOST"
        await healed(world, 60)
        await until(lambda: reported_attempt(job) == 1)
        assert all("power_off=False" in what for verb, what in world.capacity.log if verb == "prove_off")


async def test_a_lost_hosts_job_has_the_warm_spare_once_the_survivor_has_saved() -> None:
    """Nobody there can say any more that its ranks have ended: nothing of theirs is waited for."""
    world = World(grace_seconds=100, warm=True)
    async with playing(world):
        await ready(world)
        job = await training(world, save_seconds=3.0)
        world.lose("gpu-1", power="off")
        await until(lambda: bool(world.records()), 90)
        await until(lambda: reported_attempt(job) == 1)
        record = world.record().status
        assert record.owned.slurm_struck_at is not None
        assert (world.clock.now() - record.owned.slurm_struck_at).total_seconds() < 3.0 + 1.5 + 1.0
        assert record.replacement.spare_slurm_node in job.nodes
        await healed(world, 60)


async def test_a_lost_host_that_is_on_is_given_the_grace_and_then_switched_off() -> None:
    world = World(grace_seconds=20)
    async with playing(world):
        await training(world)
        world.lose("gpu-1", power="on")
        await healed(world, 240)
        record = world.record()
        proven, struck = record.status.replacement.proven_off_at, record.status.owned.slurm_struck_at
        assert proven is not None
        assert struck is not None
        assert (proven - struck).total_seconds() >= 20


async def test_what_cannot_be_proven_off_is_never_forced() -> None:
    """karpenter 2042, CAPI 2998: a repair that waits on a dead node; here it says what for."""
    world = World(grace_seconds=10)
    world.capacity.can_power = False
    async with playing(world):
        await training(world)
        world.lose("gpu-1", power="unknown")
        await until(lambda: "proof" in waits_for(world), 240)
        await asyncio.sleep(120)
        forced = [
            call for call in world.kube.writes if call.verb == "delete" and (call.body or {}).get("graceSeconds") == 0
        ]
        assert forced == []
        assert len(world.receiver.of("incident.waiting")) == 1
        world.capacity.hosts["gpu-1"].power = "off"
        await healed(world)


async def test_a_silent_agent_with_a_living_kubelet_is_no_lost_node() -> None:
    world = World()
    async with playing(world):
        await training(world)
        world.silent.add("gpu-1")
        await asyncio.sleep(300)
        assert world.records() == []


async def test_an_api_server_that_did_not_answer_makes_no_node_lost() -> None:
    """aws-parallelcluster 4874: healthy nodes replaced because the control plane was slow."""
    world = World()
    async with playing(world):
        await training(world)
        for name in ("gpu-1", "gpu-2"):  # nobody could write while it was down
            world.silent.add(name)
            world.kube.dead_nodes.add(name)
        world.kube.fail(UnavailableError("no answer"), times=100_000)
        await asyncio.sleep(300)
        world.kube.faults.clear()
        await asyncio.sleep(3)
        world.silent.clear()
        world.kube.dead_nodes.clear()
        await asyncio.sleep(120)
        assert world.records() == []
