"""A pool comes to its spec and stays there: first build, resize, replace, trouble, and a kill at every effect."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import pytest

from sparewheel.api.base import ObjectMeta
from sparewheel.api.gpu_host import GpuHost
from sparewheel.api.gpu_pool import GpuPool
from sparewheel.api.names import NAMESPACE, TAINT_SPARE
from sparewheel.api.remediation import Remediation, RemediationSpec
from sparewheel.capacity.hosts import read_host
from sparewheel.capacity.nodes import has_taint
from sparewheel.capacity.port import CapacityError, Inventory
from sparewheel.capacity.reconcile import ReconcileResult, reconcile_pool
from sparewheel.kube.memory import Call, MemoryKube
from sparewheel.kube.port import GPU_HOST, GPU_POOL, NODE, REMEDIATION, Kube, UnavailableError
from tests.support.clocks import StillClock
from tests.support.yard import POOL, Yard, active_nodes, pool_of, serious_fault


@dataclass
class World:
    clock: StillClock
    kube: MemoryKube
    yard: Yard
    busy: set[str] = field(default_factory=set[str])

    async def idle(self, kube: Kube, pool: GpuPool, node: str) -> str:
        return f"jobs on {node} to end" if node in self.busy else ""

    async def once(self) -> ReconcileResult:
        self.clock.seconds += 1
        self.yard.settle()
        return await reconcile_pool(self.kube, NAMESPACE, POOL, self.clock, provider=self.yard, idle=self.idle)

    async def settle(self, tries: int = 30) -> ReconcileResult:
        message = ""
        for _ in range(tries):
            result = await self.once()
            if result.settled:
                return result
            message = result.message
        raise AssertionError(f"not settled after {tries} looks: {message}")

    def hosts(self) -> dict[str, str]:
        """Phase by host."""
        found = {name: self.kube.peek(GPU_HOST, name, NAMESPACE) for name in self.yard.machines}
        return {name: body.get("status", {}).get("phase", "-") for name, body in found.items() if body is not None}

    def active(self) -> set[str]:
        return active_nodes(self.kube, list(self.yard.machines))

    def pool(self) -> GpuPool:
        body = self.kube.peek(GPU_POOL, POOL, NAMESPACE)
        assert body is not None
        return GpuPool.from_wire(body)


@pytest.fixture
def world() -> World:
    clock = StillClock()
    kube = MemoryKube(clock=clock)
    return World(clock, kube, Yard(kube, clock))


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
        world.kube.put(GPU_HOST, {"metadata": {"name": "gpu-1"}, "spec": spec, "status": status}, NAMESPACE)
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


def incident(world: World, node: str, name: str = "inc") -> str:
    spec = RemediationSpec(node=node, node_uid="u", pool=POOL, fault=serious_fault(world.clock))
    body = Remediation(metadata=ObjectMeta(name=name, namespace=NAMESPACE), spec=spec).to_wire()
    world.kube.put(REMEDIATION, body, NAMESPACE)
    return f"remediation/{name}"


async def test_an_open_incident_keeps_its_place(world: World) -> None:
    world.yard.add("gpu-1", "gpu-2", "gpu-3")
    pool_of(world.kube, 2)
    await world.settle()
    owner = incident(world, "gpu-1")
    assert (await world.once()).settled, "nobody fills the place that the incident will fill"
    claim = {"owner": owner, "time": "2026-01-01T00:00:00Z"}
    for phase in ("Spare", "Joining", "Checking", "Active"):
        await world.kube.merge_patch(
            GPU_HOST, "gpu-3", {"status": {"phase": phase, "claim": claim}}, NAMESPACE, "status"
        )
        await world.once()
        assert world.hosts()["gpu-1"] == world.hosts()["gpu-2"] == "Active", "nothing is surplus during an incident"
        assert world.hosts()["gpu-3"] == phase


async def remove_node(world: World, name: str) -> None:
    world.kube.drop(NODE, name)
    world.yard.machines[name].joined = None


async def test_a_node_removed_by_somebody_gives_way_to_a_spare(world: World) -> None:
    """As a cloud's controller does when a machine ends. No serving node is taken for surplus, not even afterwards."""
    world.yard.add("gpu-1", "gpu-2", "gpu-3")
    pool_of(world.kube, 2)
    await world.settle()
    await remove_node(world, "gpu-1")
    await world.settle()
    assert world.hosts() == {"gpu-1": "Spare", "gpu-2": "Active", "gpu-3": "Active"}
    assert world.active() == {"gpu-2", "gpu-3"}
    assert ("leave", "gpu-2") not in world.yard.log


async def test_a_node_removed_by_somebody_joins_again_where_there_is_no_other(world: World) -> None:
    world.yard.add("gpu-1", "gpu-2")
    pool_of(world.kube, 2)
    await world.settle()
    await remove_node(world, "gpu-2")
    await world.settle()
    assert world.active() == {"gpu-1", "gpu-2"}


async def test_a_superseded_incident_leaves_neither_a_gap_nor_a_surplus(world: World) -> None:
    world.yard.add("gpu-1", "gpu-2", "gpu-3")
    pool_of(world.kube, 2)
    await world.settle()
    await remove_node(world, "gpu-1")
    incident(world, "gpu-1")
    await world.once()
    assert world.hosts()["gpu-1"] == "Active", "an open incident sees to it"
    world.kube.drop(REMEDIATION, "inc", NAMESPACE)
    claim = {"owner": "remediation/inc", "time": "2026-01-01T00:00:00Z"}
    await world.kube.merge_patch(GPU_HOST, "gpu-1", {"status": {"claim": claim}}, NAMESPACE, "status")
    await world.settle()
    assert world.active() == {"gpu-2", "gpu-3"}


async def test_a_closed_incidents_claims_are_freed(world: World) -> None:
    world.yard.add("gpu-1", "gpu-2")
    pool_of(world.kube, 1)
    await world.settle()
    claim = {"owner": "remediation/closed", "time": "2026-01-01T00:00:00Z"}
    await world.kube.merge_patch(GPU_HOST, "gpu-1", {"status": {"claim": claim}}, NAMESPACE, "status")
    await world.kube.merge_patch(GPU_HOST, "gpu-2", {"status": {"claim": claim}}, NAMESPACE, "status")
    await world.settle()
    for name in ("gpu-1", "gpu-2"):
        assert (await read_host(world.kube, NAMESPACE, name)).status.claim is None
    assert world.hosts() == {"gpu-1": "Active", "gpu-2": "Spare"}


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
        await reconcile_pool(world.kube, NAMESPACE, POOL, world.clock, provider=world.yard, before_write=lost)
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
    clock = StillClock()
    kube = MemoryKube(clock=clock)
    world = World(clock, kube, Yard(kube, clock))
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
