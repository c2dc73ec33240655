"""Around a real API server: nodes with agents, a worker set, and Slurm in memory. No kubelets: pods go when told to."""

from __future__ import annotations

import asyncio
import uuid
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any

from sparewheel.api.base import ObjectMeta
from sparewheel.api.faults import Action, Fault, Severity
from sparewheel.api.gpu_pool import GpuPool, GpuPoolSpec, NodeSetRef, WarmBackend
from sparewheel.api.names import (
    GPU_RESOURCE,
    LABEL_APP_NAME,
    LABEL_ROLE,
    POLICY_NAME,
    ROLE_ACTIVE,
    SLINKY_POD_HOSTNAME,
    SLURMD_APP_NAME,
)
from sparewheel.api.node_health import DeviceCount, JobProcesses, NodeHealth, NodeHealthStatus
from sparewheel.api.remediation import Remediation
from sparewheel.api.remediation_policy import RemediationPolicy, RemediationPolicySpec
from sparewheel.api.routes import WebhookRoute
from sparewheel.capacity.heard import Reports
from sparewheel.capacity.providers import providers
from sparewheel.capacity.reconcile import reconcile_pool
from sparewheel.capacity.replacer import PoolReplacer
from sparewheel.clock import SystemClock
from sparewheel.kube.client import KubeClient
from sparewheel.kube.lease import LeaseTiming
from sparewheel.kube.port import (
    GPU_HOST,
    GPU_POOL,
    LEASE,
    NAMESPACE_KIND,
    NODE,
    NODE_HEALTH,
    POD,
    REMEDIATION,
    REMEDIATION_POLICY,
    ConflictError,
    Json,
    KubeError,
    NotFoundError,
    Resource,
)
from sparewheel.remediation.controller.loop import Controller
from sparewheel.slurm.memory import MemoryJob, MemorySlurm
from tests.support.job_reports import alive_on, report_step
from tests.support.mortal import KUBE_WRITES, NOTIFIER_WRITES, REPLACER_WRITES, SLURM_WRITES, Life, Mortal
from tests.support.receiver import Receiver

BEAT_SECONDS = 1.0
SIZE = 2


@dataclass
class ApiWorld:
    """Everything in a namespace and with names of its own, so that tests don't meet."""

    kube: KubeClient
    tag: str = field(default_factory=lambda: uuid.uuid4().hex[:6])
    clock: SystemClock = field(default_factory=SystemClock)
    slurm: MemorySlurm = field(init=False)
    receiver: Receiver = field(default_factory=Receiver)
    faults: dict[str, list[Fault]] = field(default_factory=dict[str, list[Fault]])
    _register_at: dict[str, float] = field(default_factory=dict[str, float])
    _known: set[str] = field(default_factory=set[str])
    _beat_at: float = 0.0

    def __post_init__(self) -> None:
        self.slurm = MemorySlurm(self.clock, requeue_delay_seconds=1.0)

    @property
    def space(self) -> str:
        return f"sw-{self.tag}"

    @property
    def pool(self) -> str:
        return f"p{self.tag}"

    def node_name(self, index: int) -> str:
        return f"{self.pool}-n{index}"

    # ------------------------------------------------------------------ set-up
    async def set_up(self) -> None:
        await self._make(NAMESPACE_KIND, {"metadata": {"name": self.space}}, None)
        for name in ("kube-node-lease",):
            await self._make(NAMESPACE_KIND, {"metadata": {"name": name}}, None)
        for index in range(1, SIZE + 2):
            await self._add_node(self.node_name(index))
        pool = GpuPool(
            metadata=ObjectMeta(name=self.pool),
            spec=GpuPoolSpec(
                size=SIZE,
                spares=1,
                backend=WarmBackend(node_selector={"test/pool": self.pool}),
                node_set_ref=NodeSetRef(namespace=self.space, name=self.pool),
                grace_seconds=10,
            ),
        )
        await self._make(GPU_POOL, pool.to_wire(), self.space)
        route = WebhookRoute.model_validate({"name": "hook", "urlRef": {"name": "hook", "key": "url"}})
        policy = RemediationPolicy(metadata=ObjectMeta(name=POLICY_NAME), spec=RemediationPolicySpec(routes=[route]))
        await self._make(REMEDIATION_POLICY, policy.to_wire(), self.space)

    async def _make(self, resource: Resource, body: Json, namespace: str | None) -> None:
        body.pop("status", None)
        with suppress(ConflictError):
            await self.kube.create(resource, body, namespace)

    async def _add_node(self, name: str) -> None:
        metadata = {"name": name, "labels": {"test/pool": self.pool}}
        await self._make(NODE, {"apiVersion": "v1", "kind": "Node", "metadata": metadata}, None)
        status = {
            "conditions": [{"type": "Ready", "status": "True"}],
            "nodeInfo": {"bootID": f"boot-{name}"},
            "allocatable": {GPU_RESOURCE: "8"},
            "capacity": {GPU_RESOURCE: "8"},
        }
        await self.kube.merge_patch(NODE, name, {"status": status}, subresource="status")

    def controller(self, identity: str, life: Life | None = None) -> Controller:
        """Over the real API server and real capacity code; ``life`` lets it die at a write."""
        life, reports = life or Life(), Reports()

        async def reconcile(pool: str, check: Any) -> Any:
            return await reconcile_pool(self.kube, self.space, pool, self.clock, reports, before_write=check)

        replacer = PoolReplacer(self.kube, self.clock, providers(self.kube), reports)
        kube: Any = Mortal(self.kube, life, KUBE_WRITES)
        slurm: Any = Mortal(self.slurm, life, SLURM_WRITES)
        notifier: Any = Mortal(self.receiver, life, NOTIFIER_WRITES)
        capacity: Any = Mortal(replacer, life, REPLACER_WRITES)
        return Controller(
            kube,
            slurm,
            capacity,
            notifier,
            self.clock,
            self.space,
            identity,
            version="test",
            reconcile_pool=reconcile,
            timing=LeaseTiming(duration_seconds=5, renew_seconds=1.0),
        )

    # ------------------------------------------------------------------ looking
    async def records(self) -> list[Remediation]:
        return [Remediation.from_wire(body) for body in (await self.kube.list(REMEDIATION, self.space)).items]

    async def phases(self) -> dict[str, str]:
        hosts = (await self.kube.list(GPU_HOST, self.space)).items
        return {str(host["spec"]["host"]): str(host.get("status", {}).get("phase")) for host in hosts}

    async def workers(self) -> dict[str, str]:
        pods = (await self.kube.list(POD, self.space, label_selector={LABEL_APP_NAME: SLURMD_APP_NAME})).items
        return {pod["metadata"]["labels"][SLINKY_POD_HOSTNAME]: pod["spec"].get("nodeName", "") for pod in pods}

    def submit(self) -> MemoryJob:
        return self.slurm.submit(MemoryJob(7, SIZE, save_seconds=1.5))

    def break_gpu(self, node: str) -> None:
        now = self.clock.now()
        fault = Fault(
            code="XID 79",
            device="0000:17:00",
            gpu_index=3,
            action=Action.REPLACE,
            severity=Severity.CRITICAL,
            first_seen=now,
            last_seen=now,
        )
        self.faults[node] = [fault]
        self._beat_at = 0.0

    # ------------------------------------------------------------------ physics
    async def run(self) -> None:
        while True:
            with suppress(KubeError):
                await self._step()
            await asyncio.sleep(0.2)

    async def _step(self) -> None:
        now = self.clock.monotonic_seconds()
        nodes = (await self.kube.list(NODE, label_selector={"test/pool": self.pool})).items
        workers = await self.workers()
        if now >= self._beat_at:
            self._beat_at = now + BEAT_SECONDS
            for node in nodes:
                await self._beat(str(node["metadata"]["name"]), workers)
        await self._operator(nodes, workers, now)
        for job in self.slurm.job_table.values():
            report_step(job, self.clock.now())

    async def _beat(self, node: str, workers: dict[str, str]) -> None:
        name = next((name for name, place in workers.items() if place == node), None)
        status = NodeHealthStatus(
            boot_id=f"boot-{node}",
            heartbeat_time=self.clock.now(),
            heartbeat_interval_seconds=BEAT_SECONDS,
            gpus=DeviceCount(expected=8, seen=8),
            faults=self.faults.get(node, []),
            jobs=[JobProcesses(job_id=job, processes=1) for job in (alive_on(self.slurm, name) if name else [])],
            jobs_observed_time=self.clock.now(),
        )
        body = NodeHealth(metadata=ObjectMeta(name=node), status=status).to_wire()
        try:
            await self.kube.merge_patch(NODE_HEALTH, node, {"status": body["status"]}, subresource="status")
        except NotFoundError:
            await self._make(NODE_HEALTH, {**body}, None)
        renewed = (self.clock.now() + timedelta(0)).strftime("%Y-%m-%dT%H:%M:%S.%fZ")
        lease = {"metadata": {"name": node}, "spec": {"renewTime": renewed}}
        try:
            await self.kube.merge_patch(LEASE, node, lease, "kube-node-lease")
        except NotFoundError:
            await self._make(LEASE, lease, "kube-node-lease")

    async def _operator(self, nodes: list[Json], workers: dict[str, str], now: float) -> None:
        free = [
            node["metadata"]["name"]
            for node in nodes
            if node["metadata"].get("labels", {}).get(LABEL_ROLE) == ROLE_ACTIVE
            and not node["spec"].get("unschedulable")
            and not node["spec"].get("taints")
            and node["metadata"]["name"] not in workers.values()
        ]
        for ordinal in range(SIZE):
            name = f"{self.pool}-{ordinal}"
            if name in workers:
                if now >= self._register_at.get(name, float("inf")):
                    del self._register_at[name]
                    if name in self.slurm.node_table:
                        self.slurm.restart_slurmd(name)
                    else:
                        self.slurm.add_node(name)
                continue
            if name in self._known:
                self._known.discard(name)
                await self.slurm.set_node_state(name, ["DOWN"], "slurm-operator: Pod is terminating")
            if free:
                await self._make_worker(name, free.pop(0))
                self._known.add(name)
                self._register_at[name] = now + 0.5

    async def _make_worker(self, name: str, node: str) -> None:
        labels = {LABEL_APP_NAME: SLURMD_APP_NAME, SLINKY_POD_HOSTNAME: name}
        spec = {
            "nodeName": node,
            "terminationGracePeriodSeconds": 0,  # no kubelet would end it
            "containers": [{"name": "slurmd", "image": "slurmd"}],
        }
        await self._make(POD, {"metadata": {"name": name, "labels": labels}, "spec": spec}, self.space)
