"""A cluster in memory with machines behind SSH for the driver of pools."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any, cast

import pytest

from sparewheel.api.base import format_time
from sparewheel.api.gpu_pool import GpuPool, GpuPoolSpec, NodeSetRef, WarmBackend
from sparewheel.api.names import (
    ANNOTATION_INCARNATION,
    LABEL_POOL,
    LABEL_ROLE,
)
from sparewheel.capacity import driver
from sparewheel.capacity.driver import Target, drive_pool, release_pool
from sparewheel.kube.memory import MemoryKube
from sparewheel.kube.memory_faults import Call
from sparewheel.kube.port import (
    GPU_HOST,
    GPU_POOL,
    NODE,
    NODE_HEALTH,
    NODE_SET,
    POD,
    Kube,
)
from tests.support.clocks import LoopClock

SPACE = "sparewheel"
TARGET = Target("no kubeconfig", SPACE, "gpu")


def spec(**changes: Any) -> GpuPoolSpec:
    plain = GpuPoolSpec(
        size=2,
        spares=1,
        backend=WarmBackend(node_selector={"class": "h200"}),
        node_set_ref=NodeSetRef(namespace="slurm", name="gpu"),
        drain_deadline_seconds=20,
    )
    return plain.model_copy(update=changes)


class Cluster:
    """Three nodes with healthy agents, a pool, a NodeSet whose workers follow the active nodes."""

    def __init__(self, nodes: int = 3) -> None:
        self.clock = LoopClock()
        self.kube = MemoryKube(self.clock)
        self.said: list[str] = []
        for number in range(1, nodes + 1):
            self.node(f"n{number}")
        self.pool(spec())
        self.kube.put(NODE_SET, {"metadata": {"name": "gpu", "namespace": "slurm"}, "spec": {}})
        self.kube.after = self.operator
        self.operating = True

    def operator(self, call: Call) -> None:
        """A worker gets ready on each node that gets active."""
        if not (self.operating and call.resource == NODE and call.writes):
            return
        for name in ("n1", "n2", "n3"):
            node = self.kube.peek(NODE, name) or {"metadata": {}}
            if cast("dict[str, str]", node["metadata"].get("labels") or {}).get(LABEL_ROLE) == "active":
                self.worker(name)

    def worker(self, node: str) -> None:
        labels = {"app.kubernetes.io/name": "slurmd", "app.kubernetes.io/instance": "gpu"}
        status = {
            "conditions": [{"type": "Ready", "status": "True"}, {"type": "SlurmNodeStateDrain", "status": "True"}]
        }
        pod = {
            "metadata": {"name": f"worker-{node}", "namespace": "slurm", "labels": labels},
            "spec": {"nodeName": node},
            "status": status,
        }
        self.kube.put(POD, pod)

    def node(self, name: str) -> None:
        status = {
            "nodeInfo": {"bootID": f"boot-{name}"},
            "conditions": [{"type": "Ready", "status": "True"}],
            "allocatable": {"nvidia.com/gpu": "8"},
        }
        self.kube.put(NODE, {"metadata": {"name": name, "labels": {"class": "h200"}}, "spec": {}, "status": status})

    def beat(self) -> None:
        """Every agent reports now."""
        for name in ("n1", "n2", "n3"):
            status = {
                "bootId": f"boot-{name}",
                "heartbeatTime": format_time(self.clock.now()),
                "gpus": {"expected": 8, "seen": 8},
                "jobsObservedTime": format_time(self.clock.now()),
            }
            self.kube.put(NODE_HEALTH, {"metadata": {"name": name}, "spec": {}, "status": status})

    async def beat_on(self) -> None:
        while True:
            self.beat()
            await self.clock.sleep(5)

    def pool(self, wanted: GpuPoolSpec, generation: int = 1) -> None:
        body = GpuPool(spec=wanted).to_wire()
        body["metadata"] = {"name": "gpu", "namespace": SPACE, "generation": generation, "uid": "pool-uid"}
        self.kube.put(GPU_POOL, body)

    async def drive(self, wanted: GpuPoolSpec | None = None, deadline_seconds: float = 60) -> None:
        await drive_pool(TARGET, wanted or spec(), "one", deadline_seconds, self.said.append, self.clock)

    async def release(self, incarnation: str = "one") -> None:
        await release_pool(TARGET, incarnation, 120, self.said.append, self.clock)

    async def settle(self) -> None:
        """What another driver leaves when the pool is as asked."""
        for name in ("n1", "n2"):
            labels = {LABEL_POOL: "gpu", LABEL_ROLE: "active"}
            await self.kube.merge_patch(NODE, name, {"metadata": {"labels": labels}})
        generation = (await self.kube.get(GPU_POOL, "gpu", SPACE))["metadata"]["generation"]
        status = {"observedGeneration": generation, "active": 2}
        await self.kube.merge_patch(GPU_POOL, "gpu", {"status": status}, SPACE, "status")

    def phases(self) -> dict[str, str]:
        found: dict[str, str] = {}
        for number in (1, 2, 3):
            host = self.kube.peek(GPU_HOST, f"n{number}", SPACE)
            found[f"n{number}"] = host["status"]["phase"] if host else "none"
        return found

    def labels(self, node: str) -> dict[str, str]:
        body = self.kube.peek(NODE, node)
        assert body is not None
        return cast("dict[str, str]", body["metadata"].get("labels") or {})

    def taints(self, node: str) -> set[str]:
        body = self.kube.peek(NODE, node)
        assert body is not None
        return {taint["key"] for taint in cast("list[dict[str, str]]", body["spec"].get("taints") or [])}

    def annotation(self) -> str | None:
        body = self.kube.peek(GPU_POOL, "gpu", SPACE)
        assert body is not None
        return cast("dict[str, str]", body["metadata"].get("annotations") or {}).get(ANNOTATION_INCARNATION)


def played(monkeypatch: pytest.MonkeyPatch) -> Cluster:
    """The driver finds this cluster at whatever address it is given."""
    cluster = Cluster()

    @asynccontextmanager
    async def connected(_: Target) -> AsyncIterator[Kube]:
        beating = asyncio.create_task(cluster.beat_on())
        try:
            yield cluster.kube
        finally:
            beating.cancel()

    monkeypatch.setattr(driver, "_cluster", connected)
    return cluster
