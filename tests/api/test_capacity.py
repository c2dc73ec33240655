"""A pool of warm nodes on a real API server: built, one node replaced, shrunk, given back."""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import dataclass, field

import pytest

from sparewheel.api.base import ObjectMeta, format_time
from sparewheel.api.gpu_host import HostPhase
from sparewheel.api.gpu_pool import GpuPool, GpuPoolSpec, NodeSetRef, WarmBackend
from sparewheel.api.names import GPU_RESOURCE, LABEL_ROLE, NAMESPACE, ROLE_ACTIVE, TAINT_SPARE
from sparewheel.capacity.heard import Reports
from sparewheel.capacity.hosts import hosts_of
from sparewheel.capacity.nodes import has_taint, labels_of
from sparewheel.capacity.port import BadNode, Check
from sparewheel.capacity.providers import providers
from sparewheel.capacity.reconcile import reconcile_pool
from sparewheel.capacity.replacer import PoolReplacer
from sparewheel.clock import SystemClock
from sparewheel.kube.client import KubeClient
from sparewheel.kube.install import apply
from sparewheel.kube.port import GPU_POOL, NAMESPACE_KIND, NODE, NODE_HEALTH, Json
from tests.kube_contract import unique

CLOCK = SystemClock()


@dataclass
class Site:
    kube: KubeClient
    pool: str
    nodes: list[str]
    reports: Reports = field(default_factory=Reports)

    async def report(self) -> None:
        """What kubelets and agents say of every node."""
        for name in self.nodes:
            ready = {"type": "Ready", "status": "True", "reason": "KubeletReady", "message": ""}
            status: Json = {
                "conditions": [ready],
                "nodeInfo": {"bootID": f"boot-{name}"},
                "allocatable": {GPU_RESOURCE: "8"},
                "capacity": {GPU_RESOURCE: "8"},
            }
            await self.kube.merge_patch(NODE, name, {"status": status}, subresource="status")
            await apply(self.kube, NODE_HEALTH, {"metadata": {"name": name}})
            health = {
                "bootId": f"boot-{name}",
                "heartbeatTime": format_time(CLOCK.now()),
                "heartbeatIntervalSeconds": 5.0,
                "gpus": {"expected": 8, "seen": 8},
                "jobsObservedTime": format_time(CLOCK.now()),
            }
            await self.kube.merge_patch(NODE_HEALTH, name, {"status": health}, subresource="status")

    async def settle(self) -> None:
        for _ in range(10):
            await self.report()
            if (await reconcile_pool(self.kube, NAMESPACE, self.pool, CLOCK, self.reports)).settled:
                return
        raise AssertionError("the pool does not settle")

    async def phases(self) -> dict[str, HostPhase]:
        return {host.spec.host: host.status.phase for host in await hosts_of(self.kube, NAMESPACE, self.pool)}

    async def serving(self) -> set[str]:
        found = {name: await self.kube.get(NODE, name) for name in self.nodes}
        return {
            name
            for name, node in found.items()
            if labels_of(node).get(LABEL_ROLE) == ROLE_ACTIVE and not has_taint(node, TAINT_SPARE)
        }


@pytest.fixture
async def site(kube: KubeClient, crds: None) -> AsyncIterator[Site]:
    await apply(kube, NAMESPACE_KIND, {"metadata": {"name": NAMESPACE}})
    pool = unique("pool")
    nodes = [f"{pool}-{index}" for index in range(3)]
    taint = {"key": TAINT_SPARE, "effect": "NoSchedule"}
    for name in nodes:
        await kube.create(NODE, {"metadata": {"name": name, "labels": {"class": pool}}, "spec": {"taints": [taint]}})
    spec = GpuPoolSpec(
        size=2,
        spares=1,
        backend=WarmBackend(node_selector={"class": pool}),
        node_set_ref=NodeSetRef(namespace="default", name=pool),
    )
    await kube.create(GPU_POOL, GpuPool(metadata=ObjectMeta(name=pool), spec=spec).to_wire(), NAMESPACE)
    yield Site(kube, pool, nodes)
    for name in nodes:
        await kube.delete(NODE, name)


async def test_built_and_shrunk(site: Site) -> None:
    await site.settle()
    assert await site.serving() == set(site.nodes[:2])
    pool = GpuPool.from_wire(await site.kube.get(GPU_POOL, site.pool, NAMESPACE))
    assert (pool.status.active, pool.status.spare, pool.status.observed_generation) == (2, 1, 1)
    version = pool.metadata.resource_version
    await site.settle()
    assert (await site.kube.get(GPU_POOL, site.pool, NAMESPACE))["metadata"]["resourceVersion"] == version
    await site.kube.merge_patch(GPU_POOL, site.pool, {"spec": {"size": 1}}, NAMESPACE)
    await site.settle()
    assert len(await site.serving()) == 1
    assert sorted((await site.phases()).values()) == [HostPhase.ACTIVE, HostPhase.SPARE, HostPhase.SPARE]


async def test_one_node_is_replaced(site: Site) -> None:
    await site.settle()
    pool = GpuPool.from_wire(await site.kube.get(GPU_POOL, site.pool, NAMESPACE))
    replacer = PoolReplacer(site.kube, CLOCK, providers(site.kube), site.reports)
    owner, bad = f"remediation/{site.pool}", site.nodes[0]
    node = await site.kube.get(NODE, bad)
    assert await replacer.host_of(pool, bad) == bad
    spare = (await replacer.claim_spare(pool, owner, bad, ())).host
    assert spare is not None
    assert spare == site.nodes[2]
    await replacer.join_spare(pool, spare, owner)
    await site.report()
    assert (await replacer.check_spare(pool, spare, owner)).check is Check.WAIT, "its report may be a dead agent's"
    await site.report()
    assert (await replacer.check_spare(pool, spare, owner)).check is Check.PASSED
    await replacer.admit(pool, spare, owner)
    await replacer.retire(pool, bad, BadNode(bad, node["metadata"]["uid"], f"boot-{bad}", "XID 79"), owner)
    assert await site.phases() == {
        bad: HostPhase.QUARANTINED,
        site.nodes[1]: HostPhase.ACTIVE,
        spare: HostPhase.ACTIVE,
    }
    assert await site.serving() == {site.nodes[1], spare}
    await site.settle()
    assert await site.serving() == {site.nodes[1], spare}
