"""A pool comes to its spec and stays there: first build, resize, replace, and a kill at every effect."""

from __future__ import annotations

from typing import Any

import pytest

from sparewheel.api.gpu_host import GpuHost
from sparewheel.api.names import NAMESPACE, TAINT_SPARE
from sparewheel.capacity.hosts import read_host
from sparewheel.capacity.nodes import has_taint
from sparewheel.capacity.reconcile import reconcile_pool
from sparewheel.kube.memory_faults import Call
from sparewheel.kube.port import GPU_HOST, NODE
from tests.support.pool_world import World, new_world
from tests.support.yard import POOL, pool_of


async def test_first_build(world: World) -> None:
    world.yard.add("gpu-1", "gpu-2", "gpu-3")
    pool_of(world.kube, 2)
    await world.settle()
    assert world.hosts() == {"gpu-1": "Active", "gpu-2": "Active", "gpu-3": "Spare"}
    assert world.active() == {"gpu-1", "gpu-2"}
    assert world.kube.peek(NODE, "gpu-3") is None
    status = world.pool().status
    assert (status.active, status.spare, status.observed_generation) == (2, 1, 1)


async def test_nothing_takes_work_before_it_is_checked(world: World) -> None:
    world.yard.add("gpu-1", reports=False)
    pool_of(world.kube, 1)
    said: list[str] = []
    for _ in range(5):
        said.append((await world.once()).message)
        assert world.active() == set()
    assert "first report of the agent on gpu-1" in said[-1]
    world.yard.machines["gpu-1"].reports = True
    await world.settle()
    assert world.active() == {"gpu-1"}


async def test_a_backend_that_may_get_more_machines_is_asked_and_waited_for(world: World) -> None:
    world.yard.add("gpu-1")
    world.yard.more = "1 more is on the way"
    pool_of(world.kube, 2)
    said = [await world.once() for _ in range(5)]
    assert "1 more is on the way" in said[-1].message
    assert not said[-1].settled
    world.yard.add("gpu-2")
    await world.settle()
    assert world.active() == {"gpu-1", "gpu-2"}


async def test_a_settled_pool_is_left_alone(world: World) -> None:
    world.yard.add("gpu-1", "gpu-2", "gpu-3")
    pool_of(world.kube, 2)
    await world.settle()
    writes, log = len(world.kube.writes), len(world.yard.log)
    for _ in range(3):
        assert (await world.once()).settled
    assert (len(world.kube.writes), len(world.yard.log)) == (writes, log)


async def test_resize_up_and_down(world: World) -> None:
    world.yard.add("gpu-1", "gpu-2", "gpu-3")
    pool_of(world.kube, 1)
    await world.settle()
    pool_of(world.kube, 3, spares=0)
    await world.settle()
    assert len(world.active()) == 3
    world.busy = {"gpu-1", "gpu-2", "gpu-3"}
    pool_of(world.kube, 1)
    said = [(await world.once()).message for _ in range(5)]
    assert "waits for jobs on gpu-" in said[-1]
    assert len(world.active()) == 1
    assert world.pool().status.observed_generation == 2, "not come to the new size yet"
    assert all(world.kube.peek(NODE, name) for name in world.yard.machines), "nothing is deleted under a job"
    world.busy = set()
    await world.settle()
    assert sorted(world.hosts().values()) == ["Active", "Spare", "Spare"]
    assert sum(machine.joined is not None for machine in world.yard.machines.values()) == 1
    assert world.pool().status.observed_generation == 3


async def test_replace_list_is_done_once(world: World) -> None:
    world.yard.add("gpu-1", "gpu-2", "gpu-3")
    pool_of(world.kube, 2)
    await world.settle()
    pool_of(world.kube, 2, replace=["gpu-1"])
    await world.settle()
    assert world.hosts() == {"gpu-1": "Quarantined", "gpu-2": "Active", "gpu-3": "Active"}
    host = await read_host(world.kube, NAMESPACE, "gpu-1")
    assert host.status.reason == "replaced on request"
    # Repaired, put back by a person, and needed again: the name on the list does no harm.
    await world.yard.reboot("gpu-1")
    await world.kube.merge_patch(GPU_HOST, "gpu-1", {"status": {"phase": "Spare"}}, NAMESPACE, "status")
    pool_of(world.kube, 3, replace=["gpu-1"], spares=0)
    await world.settle()
    assert world.hosts() == {"gpu-1": "Active", "gpu-2": "Active", "gpu-3": "Active"}


async def test_the_spare_serves_before_the_replaced_one_goes(world: World) -> None:
    world.yard.add("gpu-1", "gpu-2", "gpu-3")
    pool_of(world.kube, 2)
    await world.settle()
    pool_of(world.kube, 2, replace=["gpu-1"])
    for _ in range(20):
        result = await world.once()
        assert len(world.active()) >= 2
        if result.settled:
            break
    assert world.active() == {"gpu-2", "gpu-3"}


async def test_warm_spares_are_joined_ahead_and_take_no_work(world: World) -> None:
    world.yard.add("gpu-1", "gpu-2", "gpu-3")
    pool_of(world.kube, 1, warm_spares=True)
    await world.settle()
    assert world.active() == {"gpu-1"}
    node = world.kube.peek(NODE, "gpu-2")
    assert node is not None
    assert has_taint(node, TAINT_SPARE)
    joins = world.yard.log.count(("join", "gpu-2"))
    pool_of(world.kube, 2, warm_spares=True)
    await world.settle()
    assert world.active() == {"gpu-1", "gpu-2"}
    assert world.yard.log.count(("join", "gpu-2")) == joins, "a warm spare only changes its taint"


async def test_a_paused_pool_is_left_alone(world: World) -> None:
    world.yard.add("gpu-1")
    pool_of(world.kube, 1, paused=True)
    result = await world.once()
    assert (result.settled, result.message) == (False, "paused")
    assert world.hosts() == {}


async def test_who_may_no_longer_act_does_nothing(world: World) -> None:
    world.yard.add("gpu-1")
    pool_of(world.kube, 1)

    class LostError(Exception):
        pass

    def lost() -> None:
        raise LostError

    with pytest.raises(LostError):
        await reconcile_pool(
            world.kube, NAMESPACE, POOL, world.clock, world.reports, provider=world.yard, before_write=lost
        )
    assert world.kube.writes == []
    assert world.yard.log == []


class KilledError(BaseException):
    """kill -9."""


WISHES: tuple[dict[str, Any], ...] = (
    {"size": 2},
    {"size": 2, "replace": ["gpu-1"]},
    {"size": 1, "replace": ["gpu-1"]},
)


async def lived_through(cut_at: int, when: str) -> bool:
    """First build, replace, shrink, killed once at the ``cut_at``-th write. False when there were fewer writes."""
    world = new_world()
    kube = world.kube
    world.yard.add("gpu-1", "gpu-2", "gpu-3")
    seen = 0

    def hook(call: Call) -> None:
        nonlocal seen
        seen += call.writes
        if call.writes and seen == cut_at:
            raise KilledError

    kube.before, kube.after = (hook, None) if when == "before" else (None, hook)
    killed = False
    for wish in WISHES:
        pool_of(kube, **wish)
        try:
            await world.settle()
        except KilledError:
            killed = True
            await world.settle()
    assert len(world.active()) == 1
    assert world.hosts()["gpu-1"] == "Quarantined"
    claims = [GpuHost.from_wire(kube.peek(GPU_HOST, name, NAMESPACE) or {}).status.claim for name in world.hosts()]
    assert claims == [None, None, None]
    return killed


@pytest.mark.parametrize("when", ["before", "after"])
async def test_killed_at_any_write_it_is_finished_by_the_next(when: str) -> None:
    cut_at = 1
    while await lived_through(cut_at, when):
        cut_at += 1
    assert cut_at > 20
