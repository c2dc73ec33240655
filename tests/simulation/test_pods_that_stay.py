"""Pods that a budget protects or that never end, on nodes that live, are lost, or are removed meanwhile."""

from __future__ import annotations

import asyncio
from datetime import timedelta

import pytest

from sparewheel.api.base import format_time
from sparewheel.api.remediation import NodeStage
from sparewheel.kube.port import NODE, POD
from sparewheel.remediation.decide.record import stage_record, started
from tests.support.job_reports import reported_attempt
from tests.support.play import healed, playing, training
from tests.support.world import World, until

DEADLINE_SECONDS = 60


def world_with_protected_pod() -> World:
    world = World()
    world.put_pool(drain_deadline_seconds=DEADLINE_SECONDS)
    world.kube.blocked_evictions.add(("team", "web"))
    return world


def drain_seconds(world: World) -> float:
    drained = stage_record(world.record().status, NodeStage.DRAINED)
    assert drained is not None
    assert drained.ended_at is not None
    return (drained.ended_at - drained.started_at).total_seconds()


async def test_a_node_that_somebody_removes_while_a_budget_blocks_is_replaced_at_once() -> None:
    world = world_with_protected_pod()
    async with playing(world):
        job = await training(world)
        world.put_pod("web", "gpu-1", "team")
        world.break_gpu("gpu-1")
        await until(lambda: reported_attempt(job) == 1, 40)
        assert world.kube.peek(POD, "web", "team") is not None, "the budget holds it"
        world.kube.drop(NODE, "gpu-1")
        await healed(world, DEADLINE_SECONDS / 2)
        assert drain_seconds(world) < DEADLINE_SECONDS
        ours = [call for call in world.kube.calls if (call.verb, call.resource, call.name) == ("delete", POD, "web")]
        assert ours == [], "left to the cluster's own garbage collection"
        assert world.capacity.hosts["gpu-1"].phase == "Quarantined"


async def test_a_lost_node_does_not_wait_for_a_budget_beyond_the_deadline() -> None:
    world = world_with_protected_pod()
    async with playing(world):
        job = await training(world)
        world.put_pod("web", "gpu-1", "team")
        world.lose("gpu-1", power="off")
        await until(lambda: reported_attempt(job) == 1, 150)
        await healed(world, 2 * DEADLINE_SECONDS)
        assert drain_seconds(world) < DEADLINE_SECONDS + 10


@pytest.mark.parametrize("lost", [False, True])
async def test_a_pod_that_never_ends_holds_neither_the_job_nor_the_node(*, lost: bool) -> None:
    """It has a finalizer of somebody, or nobody is left to end it."""
    world = World()
    async with playing(world):
        job = await training(world)
        world.put_pod("stuck", "gpu-1", "team")
        stuck = world.kube.peek(POD, "stuck", "team")
        assert stuck is not None
        stuck["metadata"] |= {
            "deletionTimestamp": format_time(world.clock.now() + timedelta(seconds=30)),
            "finalizers": ["example.dev/never"],
        }
        world.kube.put(POD, stuck, "team")
        if lost:
            world.lose("gpu-1", power="off")
        else:
            world.break_gpu("gpu-1")
        await until(lambda: reported_attempt(job) == 1, 150)
        await healed(world, 150)
        assert world.kube.peek(POD, "stuck", "team") is not None
        assert drain_seconds(world) < 120


async def test_a_fault_that_goes_for_a_second_and_another_that_comes_are_one_incident() -> None:
    world = World()
    async with playing(world):
        job = await training(world)
        world.break_gpu("gpu-1", gpu=3)
        await until(lambda: bool(world.records()) and started(world.record().status, NodeStage.DRAINED))
        world.faults.clear()
        await asyncio.sleep(1)
        world.break_gpu("gpu-1", gpu=5)
        await healed(world)
        await asyncio.sleep(60)
        assert len(world.records()) == 1
        assert job.restart_count == 1


async def test_a_slurm_node_keeps_its_name_on_the_spare_so_that_jobs_which_ask_for_it_go_on() -> None:
    world = World()
    async with playing(world):
        await training(world)
        names, place = set(world.slurm.node_table), world.worker_nodes()
        name = next(name for name, node in place.items() if node == "gpu-1")
        world.break_gpu("gpu-1")
        await healed(world)
        assert set(world.slurm.node_table) == names
        assert world.worker_nodes()[name] == "gpu-3"
        assert not world.slurm.node_table[name].down
