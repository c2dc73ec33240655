"""Makes the fleet on the API server: Nodes of real size, a worker and a report for each, pools, the policy."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from datetime import UTC, datetime
from typing import Any, Final

from sparewheel.api.base import ObjectMeta, format_time
from sparewheel.api.gpu_pool import GpuPool, GpuPoolSpec, NodeSetRef, WarmBackend
from sparewheel.api.names import (
    GPU_RESOURCE,
    LABEL_APP_INSTANCE,
    LABEL_APP_NAME,
    LABEL_HOST,
    LABEL_POOL,
    LABEL_ROLE,
    NAMESPACE,
    POLICY_NAME,
    ROLE_ACTIVE,
    SLINKY_POD_HOSTNAME,
    SLURMD_APP_NAME,
)
from sparewheel.api.node_health import NodeHealth
from sparewheel.api.remediation_policy import RemediationPolicy, RemediationPolicySpec
from sparewheel.kube.client import KubeClient
from sparewheel.kube.port import GPU_HOST, GPU_POOL, NAMESPACE_KIND, NODE, NODE_HEALTH, POD, REMEDIATION_POLICY, Json

AT_ONCE: Final = 24
POOL_SIZE: Final = 500
NODE_LABELS: Final = 90
"""With an annotation of 4 KB and the kubelet's status they make a Node of about 13 KB, the size of a real one."""


def node_name(index: int) -> str:
    return f"gpu-{index:05d}"


def pool_of(index: int) -> str:
    return f"pool-{index // POOL_SIZE:02d}"


def pool_body(name: str, size: int = POOL_SIZE) -> Json:
    spec = GpuPoolSpec(
        size=size,
        backend=WarmBackend(node_selector={LABEL_POOL: name}),
        node_set_ref=NodeSetRef(namespace="slurm", name=name),
    )
    return GpuPool(metadata=ObjectMeta(name=name), spec=spec).to_wire()


def node_body(index: int) -> Json:
    labels = {f"feature.node.example.com/attribute-{number:03d}": f"value-{number}" for number in range(NODE_LABELS)}
    ours = {LABEL_POOL: pool_of(index), LABEL_ROLE: ROLE_ACTIVE, LABEL_HOST: node_name(index)}
    metadata = {
        "name": node_name(index),
        "labels": {**labels, **ours},
        "annotations": {"example.com/topology": "x" * 4000, "kwok.x-k8s.io/node": "fake"},
    }
    return {"metadata": metadata, "spec": {"providerID": f"bench://{index}"}}


def node_status(index: int) -> Json:
    kinds = ("MemoryPressure", "DiskPressure", "PIDPressure")
    now = format_time(datetime.now(UTC))[:19] + "Z"
    stamps = {"lastHeartbeatTime": now, "lastTransitionTime": now}
    calm: list[Json] = [{"type": kind, "status": "False", "reason": f"NodeHasNo{kind}", **stamps} for kind in kinds]
    size = {GPU_RESOURCE: "8", "cpu": "192", "memory": "2Ti", "pods": "110"}
    return {
        "conditions": [*calm, {"type": "Ready", "status": "True", "reason": "KubeletReady", **stamps}],
        "nodeInfo": {"bootID": f"boot-{index}"},
        "capacity": size,
        "allocatable": size,
        "images": [{"names": [f"registry.example/image-{n}@sha256:{n:064d}"], "sizeBytes": 10} for n in range(25)],
    }


def worker_body(index: int) -> Json:
    labels = {
        LABEL_APP_NAME: SLURMD_APP_NAME,
        LABEL_APP_INSTANCE: pool_of(index),
        SLINKY_POD_HOSTNAME: f"w-{index}",
    }
    spec = {"nodeName": node_name(index), "containers": [{"name": "slurmd", "image": "slurmd"}]}
    return {"metadata": {"name": f"w-{index}", "labels": labels}, "spec": spec}


def health_status(index: int, faults: Sequence[Json] = ()) -> Json:
    return {
        "bootId": f"boot-{index}",
        "heartbeatTime": format_time(datetime.now(UTC)),
        "heartbeatIntervalSeconds": 3600,
        "gpus": {"expected": 8, "seen": 8},
        "faults": list(faults),
    }


def xid_79() -> Json:
    now = format_time(datetime.now(UTC))
    return {
        "code": "XID 79", "device": "0000:17:00", "gpuIndex": 3, "action": "replace", "severity": "critical",
        "source": "kernel_log", "firstSeen": now, "lastSeen": now, "message": "GPU has fallen off the bus.",
    }  # fmt: skip


async def each(count: int, work: Callable[[int], Awaitable[Any]], at_once: int = AT_ONCE) -> None:
    """``work`` for 0 .. count-1, so many at once; the first error ends it."""
    numbers = iter(range(count))

    async def worker() -> None:
        for number in numbers:
            await work(number)

    async with asyncio.TaskGroup() as group:
        for _ in range(at_once):
            group.create_task(worker())


async def make_fleet(kube: KubeClient, count: int, say: Callable[[str], None]) -> None:
    """Everything the controller watches, ``count`` nodes of it."""
    for name in (NAMESPACE, "slurm"):
        await kube.create(NAMESPACE_KIND, {"metadata": {"name": name}})
    policy = RemediationPolicy(
        metadata=ObjectMeta(name=POLICY_NAME), spec=RemediationPolicySpec(max_fenced_nodes=max(10, count))
    )
    await kube.create(REMEDIATION_POLICY, policy.to_wire(), NAMESPACE)
    for name in sorted({pool_of(index) for index in range(count)}):
        await kube.create(GPU_POOL, pool_body(name, min(count, POOL_SIZE)), NAMESPACE)
    say(f"making {count} Nodes")
    await each(count, lambda index: _node(kube, index))
    say(f"making {count} workers and reports")
    await each(count, lambda index: _rest(kube, index))


async def _node(kube: KubeClient, index: int) -> None:
    await kube.create(NODE, node_body(index))
    await kube.merge_patch(NODE, node_name(index), {"status": node_status(index)}, subresource="status")


async def _rest(kube: KubeClient, index: int) -> None:
    await _host(kube, index)
    await kube.create(POD, worker_body(index), "slurm")
    await kube.create(NODE_HEALTH, NodeHealth(metadata=ObjectMeta(name=node_name(index))).to_wire())
    await report(kube, index)


async def _host(kube: KubeClient, index: int) -> None:
    """As capacity has written it when the node joined."""
    name = node_name(index)
    spec = {
        "pool": pool_of(index),
        "host": name,
        "providerId": f"bench://{index}",
        "resources": {GPU_RESOURCE: 8, "cpu": 192},
    }
    metadata = {"name": name, "labels": {LABEL_POOL: pool_of(index)}}
    made = await kube.create(GPU_HOST, {"metadata": metadata, "spec": spec}, NAMESPACE)
    since = format_time(datetime.now(UTC))
    made["status"] = {"phase": "Active", "nodeName": name, "since": since, "bootId": f"boot-{index}"}
    await kube.replace(GPU_HOST, made, NAMESPACE, "status")


async def report(kube: KubeClient, index: int, faults: Sequence[Json] = ()) -> None:
    """The node's agent reports."""
    status = {"status": health_status(index, faults)}
    await kube.merge_patch(NODE_HEALTH, node_name(index), status, subresource="status")
