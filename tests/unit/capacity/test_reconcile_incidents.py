"""A pool while incidents go on beside it, and after a Node was removed by somebody."""

from __future__ import annotations

from sparewheel.api.base import ObjectMeta
from sparewheel.api.gpu_host import GpuHost
from sparewheel.api.names import LABEL_HOST, NAMESPACE
from sparewheel.api.remediation import Remediation, RemediationSpec
from sparewheel.capacity.hosts import read_host
from sparewheel.kube.memory_faults import Call
from sparewheel.kube.port import GPU_HOST, GPU_POOL, NODE, REMEDIATION
from sparewheel.remediation.decide.missing_node import LEFT_TO_INCIDENTS_SECONDS
from sparewheel.remediation.decide.removed import without_node
from tests.support.pool_world import World
from tests.support.yard import POOL, pool_of, serious_fault


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


async def test_a_count_lowered_during_an_incident_takes_no_serving_node_until_the_spare_serves(world: World) -> None:
    """Somebody, or an autoscaler, lowers the count of two to one while one of the two is bad."""
    world.yard.add("gpu-1", "gpu-2", "gpu-3")
    pool_of(world.kube, 2)
    await world.settle()
    owner = incident(world, "gpu-1")
    await world.kube.merge_patch(GPU_POOL, POOL, {"spec": {"size": 1}}, NAMESPACE)
    await world.settle()
    assert world.hosts()["gpu-2"] == "Active", "the only one that serves"
    node = world.kube.peek(NODE, "gpu-2") or {}
    labels = {**node["metadata"]["labels"], LABEL_HOST: "gpu-3"}
    world.kube.put(NODE, {**node, "metadata": {"name": "gpu-3", "labels": labels}})
    claim = {"owner": owner, "time": "2026-01-01T00:00:00Z"}
    replaced = {"gpu-3": {"phase": "Active", "nodeName": "gpu-3", "claim": claim}, "gpu-1": {"phase": "Quarantined"}}
    for name, status in replaced.items():
        await world.kube.merge_patch(GPU_HOST, name, {"status": status}, NAMESPACE, "status")
    world.kube.drop(REMEDIATION, "inc", NAMESPACE)
    await world.settle()
    assert len([name for name, phase in world.hosts().items() if phase == "Active"]) == 1
    await world.kube.merge_patch(GPU_POOL, POOL, {"spec": {"size": 2}}, NAMESPACE)
    await world.settle()
    assert len([name for name, phase in world.hosts().items() if phase == "Active"]) == 2


async def remove_node(world: World, name: str) -> None:
    world.kube.drop(NODE, name)
    world.yard.machines[name].joined = None


async def test_a_node_removed_by_somebody_is_left_to_an_incident_then_gives_way_to_a_spare(world: World) -> None:
    """As a cloud's controller does when a machine ends. No serving node is taken for surplus, not even afterwards."""
    world.yard.add("gpu-1", "gpu-2", "gpu-3")
    pool_of(world.kube, 2)
    await world.settle()
    await remove_node(world, "gpu-1")
    result = await world.once()
    assert not result.settled
    assert "the Node of gpu-1 was removed; it may come back" in result.message
    world.clock.seconds += 60 + LEFT_TO_INCIDENTS_SECONDS - 5
    await world.once()
    assert world.hosts() == {"gpu-1": "Active", "gpu-2": "Active", "gpu-3": "Spare"}
    world.clock.seconds += 10
    await world.settle()
    assert world.hosts() == {"gpu-1": "Spare", "gpu-2": "Active", "gpu-3": "Active"}
    assert world.active() == {"gpu-2", "gpu-3"}
    assert ("leave", "gpu-2") not in world.yard.log


async def test_a_node_removed_by_somebody_joins_again_where_there_is_no_other(world: World) -> None:
    world.yard.add("gpu-1", "gpu-2")
    pool_of(world.kube, 2)
    await world.settle()
    await remove_node(world, "gpu-2")
    await world.once()
    world.clock.seconds += 60 + LEFT_TO_INCIDENTS_SECONDS
    await world.settle()
    assert world.active() == {"gpu-1", "gpu-2"}


async def test_a_node_that_registers_anew_is_checked_before_it_serves_again(world: World) -> None:
    world.yard.add("gpu-1", "gpu-2", "gpu-3")
    pool_of(world.kube, 2)
    await world.settle()
    request = world.yard.machines["gpu-1"].joined
    await remove_node(world, "gpu-1")
    await world.once()
    assert request is not None
    await world.yard.join(request)  # its kubelet still runs, and registers as it was told at first
    await world.settle()
    assert world.hosts() == {"gpu-1": "Active", "gpu-2": "Active", "gpu-3": "Spare"}
    assert world.active() == {"gpu-1", "gpu-2"}
    assert (await read_host(world.kube, NAMESPACE, "gpu-1")).status.node_missing_since is None


async def test_no_node_is_removed_by_capacity_while_its_host_serves(world: World) -> None:
    """Else a controller would take a shrink or a replacement for somebody else's deed."""
    world.yard.add("gpu-1", "gpu-2", "gpu-3", "gpu-4")
    pool_of(world.kube, 3)
    await world.settle()

    def look(call: Call) -> None:
        if call.writes:
            hosts = [GpuHost.from_wire(body) for body in world.kube._objects[GPU_HOST].values()]
            nodes = {name for _, name in world.kube._objects.get(NODE, {})}
            assert without_node(hosts, nodes) == [], call

    world.kube.after = look
    pool_of(world.kube, 2)
    await world.settle()
    pool_of(world.kube, 2, replace=["gpu-1"])
    await world.settle()
    assert world.hosts()["gpu-1"] == "Quarantined"
    pool_of(world.kube, 0)
    await world.settle()
    assert world.active() == set()


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
    await world.once()
    world.clock.seconds += 60 + LEFT_TO_INCIDENTS_SECONDS
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
