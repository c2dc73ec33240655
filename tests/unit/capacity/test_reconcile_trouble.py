"""A pool comes to its spec though machines are unfit, out of reach, removed from the list, or can't be looked up."""

from __future__ import annotations

import pytest

from sparewheel.api.names import LABEL_POOL, NAMESPACE
from sparewheel.capacity.hosts import read_host
from sparewheel.capacity.port import CapacityError, Inventory
from sparewheel.kube.port import GPU_HOST, NODE, REMEDIATION, UnavailableError
from tests.support.pool_world import World
from tests.support.yard import POOL, pool_of, serious_fault


@pytest.mark.parametrize("trouble", ["gpus", "fault", "boot"])
async def test_an_unfit_machine_is_quarantined_and_another_taken(world: World, trouble: str) -> None:
    world.yard.add("gpu-1", "gpu-2")
    bad = world.yard.machines["gpu-1"]
    pool_of(world.kube, 1)
    if trouble == "gpus":
        bad.gpus = 7
    elif trouble == "fault":
        bad.faults = [serious_fault(world.clock)]
    else:
        spec = {"pool": POOL, "host": "gpu-1", "providerId": "machines://gpu-1"}
        status = {"refusedBootId": bad.boot_id, "phase": "Spare", "since": "2026-01-01T00:00:00Z"}
        metadata = {"name": "gpu-1", "labels": {LABEL_POOL: POOL}}
        world.kube.put(GPU_HOST, {"metadata": metadata, "spec": spec, "status": status}, NAMESPACE)
    await world.settle()
    assert world.hosts() == {"gpu-1": "Quarantined", "gpu-2": "Active"}
    assert world.active() == {"gpu-2"}


async def test_a_machine_out_of_reach_is_tried_last(world: World) -> None:
    world.yard.add("gpu-1", "gpu-2")
    world.yard.machines["gpu-1"].reachable = world.yard.machines["gpu-1"].power_known = False
    pool_of(world.kube, 1)
    result = await world.once()
    assert "gpu-1 can't be reached" in result.message
    await world.settle()
    assert world.hosts() == {"gpu-1": "Spare", "gpu-2": "Active"}
    assert "can't be reached" in (await read_host(world.kube, NAMESPACE, "gpu-1")).status.reason


async def test_a_machine_that_boots_is_waited_for(world: World) -> None:
    world.yard.add("gpu-1", "gpu-2")
    booting = world.yard.machines["gpu-1"]
    booting.on = booting.reachable = False
    pool_of(world.kube, 1)
    for _ in range(5):
        await world.once()
    assert world.hosts() == {"gpu-1": "Joining", "gpu-2": "Spare"}
    booting.reachable = True
    await world.settle()
    assert world.hosts() == {"gpu-1": "Active", "gpu-2": "Spare"}


async def test_a_machine_that_never_boots_gives_way(world: World) -> None:
    world.yard.add("gpu-1", "gpu-2")
    world.yard.machines["gpu-1"].reachable = False
    pool_of(world.kube, 1)
    await world.once()
    world.clock.seconds += 601
    await world.settle()
    assert world.hosts() == {"gpu-1": "Spare", "gpu-2": "Active"}


async def test_a_refused_key_is_said_at_once(world: World) -> None:
    world.yard.add("gpu-1")
    world.yard.machines["gpu-1"].refuses_key = True
    pool_of(world.kube, 1)
    with pytest.raises(CapacityError, match="gpu-1 refuses the key"):
        await world.once()
    world.yard.machines["gpu-1"].refuses_key = False
    await world.settle()


async def test_a_pool_larger_than_its_machines_is_said(world: World) -> None:
    world.yard.add("gpu-1", "gpu-2")
    pool_of(world.kube, 3)
    with pytest.raises(CapacityError, match="asks for 3 nodes, 1 more than its 2 machines can give"):
        await world.settle()
    assert world.active() == {"gpu-1", "gpu-2"}


async def test_a_machine_in_two_pools_is_refused(world: World) -> None:
    world.yard.add("gpu-1")
    spec = {"pool": "other", "host": "gpu-1", "providerId": "machines://gpu-1"}
    world.kube.put(GPU_HOST, {"metadata": {"name": "gpu-1"}, "spec": spec}, NAMESPACE)
    pool_of(world.kube, 1)
    with pytest.raises(CapacityError, match="gpu-1 of pool gpu belongs to pool other"):
        await world.once()


async def test_a_host_whose_label_was_taken_away_is_still_the_pools(world: World) -> None:
    world.yard.add("gpu-1", "gpu-2")
    pool_of(world.kube, 2)
    await world.settle()
    await world.kube.merge_patch(GPU_HOST, "gpu-1", {"metadata": {"labels": {LABEL_POOL: None}}}, NAMESPACE)
    await world.settle()
    assert world.hosts() == {"gpu-1": "Active", "gpu-2": "Active"}
    assert (await world.kube.get(GPU_HOST, "gpu-1", NAMESPACE))["metadata"]["labels"][LABEL_POOL] == POOL


async def test_a_node_whose_label_was_taken_away_is_not_lost(world: World) -> None:
    world.yard.add("gpu-1", "gpu-2")
    pool_of(world.kube, 1)
    await world.settle()
    (node,) = world.active()
    await world.kube.merge_patch(NODE, node, {"metadata": {"labels": {LABEL_POOL: None}}})
    await world.once()
    assert world.hosts()[node] == "Active"


async def test_a_failed_look_changes_nothing(world: World) -> None:
    world.yard.add("gpu-1", "gpu-2", "gpu-3")
    pool_of(world.kube, 2)
    await world.settle()
    for resource in (NODE, REMEDIATION, GPU_HOST):
        pool_of(world.kube, 1)
        writes = len(world.kube.writes)
        world.kube.fail(UnavailableError("cut"), "list", resource)
        with pytest.raises(UnavailableError):
            await world.once()
        assert len(world.kube.writes) == writes


async def test_a_serving_node_is_taken_over(world: World) -> None:
    """The records are lost, the node and its jobs are not."""
    world.yard.add("gpu-1", "gpu-2")
    pool_of(world.kube, 1)
    await world.settle()
    world.kube.drop(GPU_HOST, "gpu-1", NAMESPACE)
    joins = world.yard.log.count(("join", "gpu-1"))
    await world.settle()
    assert world.hosts() == {"gpu-1": "Active", "gpu-2": "Spare"}
    assert world.yard.log.count(("join", "gpu-1")) == joins


async def test_a_machine_off_the_list_leaves_and_is_forgotten(world: World) -> None:
    world.yard.add("gpu-1", "gpu-2")
    pool_of(world.kube, 1)
    await world.settle()
    real, gone = world.yard.list_hosts, "gpu-1"

    async def shorter() -> list[Inventory]:
        return [machine for machine in await real() if machine.host != gone]

    world.yard.list_hosts = shorter
    await world.settle()
    assert world.hosts() == {"gpu-2": "Active"}
    assert world.kube.peek(NODE, "gpu-1") is None
