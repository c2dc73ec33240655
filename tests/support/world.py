"""A small data centre in memory: nodes with agents, a worker set that makes its pods again, Slurm, spare hosts.

``run()`` lets physics pass in steps of 0.1 s of the loop's time; use with ``@pytest.mark.looptime``.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any, Protocol

from sparewheel.api.base import ObjectMeta, format_time
from sparewheel.api.faults import Action, Fault, Severity
from sparewheel.api.gpu_pool import GpuPool, GpuPoolSpec, NodeSetRef, WarmBackend
from sparewheel.api.names import (
    LABEL_VETO,
    NAMESPACE,
    POLICY_NAME,
    TAINT_SPARE,
    VETO_VALUE,
)
from sparewheel.api.node_health import DeviceCount, JobProcesses, NodeAction, NodeHealth, NodeHealthStatus
from sparewheel.api.remediation import Outcome, Remediation
from sparewheel.api.remediation_policy import RemediationPolicy, RemediationPolicySpec
from sparewheel.api.routes import Route, WebhookRoute
from sparewheel.clock import Clock
from sparewheel.kube.memory import MemoryKube
from sparewheel.kube.port import GPU_POOL, LEASE, NODE, NODE_HEALTH, POD, REMEDIATION, REMEDIATION_POLICY, Json
from sparewheel.remediation.controller.loop import Controller
from sparewheel.slurm.memory import MemoryJob, MemorySlurm
from tests.support.clocks import LoopClock
from tests.support.fake_replacer import FakeHost, FakeReplacer, put_node
from tests.support.job_reports import alive_on, report_step
from tests.support.receiver import Receiver
from tests.support.worker_set import POOL, SLURM_NAMESPACE, WorkerSet

HEARTBEAT_SECONDS = 2.0


class NodeHelpers(Protocol):
    """``tests.support.node_helpers``."""

    words: dict[str, NodeAction]
    """The last answer of each node's helper."""

    def step(self, monotonic_seconds: float) -> None: ...


@dataclass
class World(WorkerSet):
    replicas: int = 2
    spares: int = 1
    grace_seconds: int = 20
    clock: Clock = field(default_factory=LoopClock)
    capacity: FakeReplacer = field(init=False)
    pool: GpuPool = field(init=False)
    receiver: Receiver = field(default_factory=Receiver)
    faults: dict[str, list[Fault]] = field(default_factory=dict[str, list[Fault]])
    silent: set[str] = field(default_factory=set[str])
    """Nodes whose agent is silent; those in ``kube.dead_nodes`` have no kubelet either."""
    helpers: NodeHelpers | None = None
    """The nodes' helpers, where the stack has them."""
    boots: dict[str, int] = field(default_factory=dict[str, int])
    """How often each node was rebooted."""
    _beat_at: float = 0.0
    _died_at: dict[str, float] = field(default_factory=dict[str, float])
    _quiet: dict[object, Json] = field(default_factory=dict[object, Json])

    def __post_init__(self) -> None:
        self.kube = MemoryKube(clock=self.clock)
        self.slurm = MemorySlurm(self.clock, requeue_delay_seconds=1.0)
        self.capacity = FakeReplacer(self.kube, self.clock)
        for index in range(self.replicas + self.spares):
            name = f"gpu-{index + 1}"
            active = index < self.replicas
            self.capacity.hosts[name] = FakeHost(name, "Active" if active else "Spare", name if active else "")
            if active:
                put_node(self.kube, name, POOL, [])
            elif self.warm:
                self.warm_up(name)
        self.put_pool()
        self.put_policy(RemediationPolicySpec(routes=self.routes))

    @property
    def workers(self) -> int:
        return self.replicas + (self.spares if self.warm else 0)

    # ------------------------------------------------------------------ set-up
    @property
    def routes(self) -> list[Route]:
        return [WebhookRoute.model_validate({"name": "hook", "urlRef": {"name": "hook", "key": "url"}})]

    def put_pool(self, **changes: Any) -> None:
        spec = GpuPoolSpec(
            size=self.replicas,
            spares=self.spares,
            backend=WarmBackend(node_selector={"pool": POOL}),
            node_set_ref=NodeSetRef(namespace=SLURM_NAMESPACE, name=POOL),
            grace_seconds=self.grace_seconds,
            warm_spares=self.warm,
        ).model_copy(update=changes)
        pool = self.pool = GpuPool(metadata=ObjectMeta(name=POOL, namespace=NAMESPACE), spec=spec)
        self.kube.put(GPU_POOL, pool.to_wire(), NAMESPACE)

    def put_policy(self, spec: RemediationPolicySpec) -> None:
        policy = RemediationPolicy(metadata=ObjectMeta(name=POLICY_NAME, namespace=NAMESPACE), spec=spec)
        self.kube.put(REMEDIATION_POLICY, policy.to_wire(), NAMESPACE)

    def warm_up(self, name: str) -> None:
        """What capacity does ahead of need."""
        host = self.capacity.hosts.setdefault(name, FakeHost(name))
        host.phase, host.node, host.owner = "Spare", name, ""
        put_node(self.kube, name, POOL, [TAINT_SPARE])

    def controller(self, identity: str = "one") -> Controller:
        return Controller(
            self.kube, self.slurm, self.capacity, self.receiver, self.clock, NAMESPACE, identity, version="test"
        )

    def submit(self, job_id: int = 7, size: int | None = None, **fields: Any) -> MemoryJob:
        fields.setdefault("save_seconds", 3.0)
        return self.slurm.submit(MemoryJob(job_id, self.replicas if size is None else size, **fields))

    def break_gpu(
        self, node: str, code: str = "XID 79", gpu: int = 3, action: Action = Action.REPLACE, **fields: Any
    ) -> Fault:
        now = self.clock.now()
        fault = Fault(
            code=code,
            device=f"0000:{gpu:02x}:00",
            gpu_index=gpu,
            action=action,
            severity=Severity.CRITICAL,
            first_seen=now,
            last_seen=now,
            message="GPU has fallen off the bus.",
            **fields,
        )
        self.faults.setdefault(node, []).append(fault)
        self._beat(node, self._workers_on())
        return fault

    def boot_id(self, node: str) -> str:
        return f"boot-{node}" + (f"-{self.boots[node]}" if node in self.boots else "")

    def go_down(self, node: str) -> None:
        """The host reboots: no agent, no kubelet, until ``come_back``."""
        self.silent.add(node)
        self.kube.dead_nodes.add(node)

    def come_back(self, node: str) -> None:
        """Another boot; the worker's slurmd registers anew, as it was set."""
        self.boots[node] = self.boots.get(node, 0) + 1
        self.silent.discard(node)
        self.kube.dead_nodes.discard(node)
        self._died_at.pop(node, None)
        body = self.node(node)
        body["status"]["conditions"] = [{"type": "Ready", "status": "True"}]
        body["status"]["nodeInfo"] = {"bootID": self.boot_id(node)}
        self.kube.put(NODE, body)
        for name, place in self.worker_nodes().items():
            if place == node:
                self.slurm.node_table[name].left.clear()
                self.slurm.restart_slurmd(name)

    def heal_gpu(self, node: str, gpu: int) -> None:
        """The agent no longer sees the faults of this GPU."""
        self.faults[node] = [fault for fault in self.faults.get(node, []) if fault.gpu_index != gpu]
        self._beat(node, self._workers_on())

    def lose(self, node: str, *, power: str = "off") -> None:
        """The host dies: no agent, no kubelet; its power switch says ``power``."""
        self.silent.add(node)
        self.kube.dead_nodes.add(node)
        host = next(host for host in self.capacity.hosts.values() if host.node == node)
        host.power = power

    def put_pod(self, name: str, node: str, namespace: str = "other", **labels: str) -> Json:
        metadata = {"name": name, "labels": labels, "uid": f"pod-{next(self._uids)}"}
        return self.kube.put(POD, {"metadata": metadata, "spec": {"nodeName": node}}, namespace)

    def uncordon(self, node: str) -> None:
        """A person takes the cordon off."""
        body = self.node(node)
        body["spec"]["unschedulable"] = False
        self.kube.put(NODE, body)

    def veto(self, node: str, name: str = "eval") -> None:
        self.put_pod(name, node, **{LABEL_VETO: VETO_VALUE})

    # ------------------------------------------------------------------ looking
    def bodies(self) -> list[Json]:
        """The Remediations as they are stored."""
        return list(self.kube._objects.get(REMEDIATION, {}).values())

    def records(self) -> list[Remediation]:
        return [Remediation.from_wire(body) for body in self.bodies()]

    def told_all(self) -> bool:
        """Is there an incident, and all healed, followed to their jobs' ends and told?"""
        bodies = self.bodies()
        if not bodies or any(body.get("status", {}).get("outcome") != Outcome.HEALED for body in bodies):
            return False
        found = [record.status for record in self.records()]
        return all(job.closed for status in found for job in status.jobs) and all(
            one.delivered_at for status in found for one in status.outbox
        )

    def record(self) -> Remediation:
        (only,) = self.records()
        return only

    def node(self, name: str) -> Json:
        body = self.kube.peek(NODE, name)
        assert body is not None
        return body

    # ------------------------------------------------------------------ physics
    async def run(self) -> None:
        while True:
            self.step()
            await self.clock.sleep(0.1)

    def step(self) -> None:
        now = self.clock.monotonic_seconds()
        if now >= self._beat_at:
            self._beat_at = now + HEARTBEAT_SECONDS
            workers = self._workers_on()
            for body in list(self.kube._objects.get(NODE, {}).values()):
                self._beat(body["metadata"]["name"], workers)
        self.look_after_workers(now)
        if self.helpers is not None:
            self.helpers.step(now)
        self.capacity.publish(self.pool)
        for job in self.slurm.job_table.values():
            report_step(job, self.clock.now())

    def _workers_on(self) -> dict[str, str]:
        """By Node: the Slurm node whose worker it has."""
        return {place: name for name, place in reversed(self.worker_nodes().items())}

    def _beat(self, node: str, workers: Mapping[str, str]) -> None:
        if ("", node) not in self.kube._objects.get(NODE, {}):
            return
        if node in self.kube.dead_nodes:
            died = self._died_at.setdefault(node, self.clock.monotonic_seconds())
            if self.clock.monotonic_seconds() - died > 40:  # the node controller's grace
                body = self.node(node)
                body["status"]["conditions"] = [{"type": "Ready", "status": "Unknown"}]
                self.kube.put(NODE, body)
        else:
            lease = {"metadata": {"name": node}, "spec": {"renewTime": format_time(self.clock.now())}}
            self.kube.put(LEASE, lease, "kube-node-lease")
        if node in self.silent:
            return
        name = workers.get(node)
        report = self._report(node, alive_on(self.slurm, name) if name else [])
        wrong_clock = self.clock.now() + timedelta(hours=-3)  # and nobody minds
        times = {"heartbeatTime": format_time(wrong_clock), "jobsObservedTime": format_time(self.clock.now())}
        self.kube.put(NODE_HEALTH, {**report, "status": {**report["status"], **times}})

    def _report(self, node: str, alive: list[int]) -> Json:
        """What the agent says, but for the times; the same as before where all is well there and nothing new."""
        faults, boot_id = self.faults.get(node, []), self.boot_id(node)
        action = self.helpers.words.get(node) if self.helpers is not None else None
        quiet = (node, boot_id, tuple(alive)) if not faults and action is None else None
        if quiet in self._quiet:
            return self._quiet[quiet]
        status = NodeHealthStatus(
            boot_id=boot_id,
            action=action,
            heartbeat_interval_seconds=HEARTBEAT_SECONDS,
            gpus=DeviceCount(expected=8, seen=8),
            faults=faults,
            jobs=[JobProcesses(job_id=job, processes=1) for job in alive],
        )
        report = NodeHealth(metadata=ObjectMeta(name=node), status=status).to_wire()
        if quiet is not None:
            self._quiet[quiet] = report
        return report


async def until(holds: Callable[[], bool], seconds: float = 120.0) -> None:
    """Wait until the condition holds, looking every 0.1 s; TimeoutError after ``seconds`` of the loop's time."""
    async with asyncio.timeout(seconds):
        while not holds():  # noqa: ASYNC110 - the world has no event for everything
            await asyncio.sleep(0.1)
