"""Machines in memory behind a MemoryKube: they boot, join, report their health, and leave.

Implements ``sparewheel.capacity.port.CapacityProvider``; a machine that joined becomes Ready at the next ``settle()``.
"""

from __future__ import annotations

import itertools
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any

from sparewheel.api.base import ObjectMeta
from sparewheel.api.enums import Action
from sparewheel.api.faults import Fault
from sparewheel.api.gpu_pool import (
    GpuPool,
    GpuPoolSpec,
    Machine,
    MachinesBackend,
    NodeSetRef,
    SecretKeyRef,
    SshEndpoint,
)
from sparewheel.api.names import GPU_RESOURCE, LABEL_ROLE, NAMESPACE, ROLE_ACTIVE, TAINT_JOINING
from sparewheel.api.node_health import DeviceCount, JobProcesses, NodeHealth, NodeHealthStatus
from sparewheel.capacity.nodes import has_taint, labels_of
from sparewheel.capacity.port import CapacityError, Inventory, JoinRequest, Proof, UnreachableError
from sparewheel.clock import Clock
from sparewheel.kube.memory import MemoryKube
from sparewheel.kube.port import GPU_POOL, NODE, NODE_HEALTH, Json

POOL = "gpu"
_boots = itertools.count(1)


@dataclass
class FakeMachine:
    name: str
    instance_type: str = ""
    fabric_block: str = ""
    on: bool = True
    boot_id: str = ""
    reachable: bool = True
    refuses_key: bool = False
    joined: JoinRequest | None = None
    nvlink_domain: str = ""
    resources: dict[str, int] = field(default_factory=dict[str, int])
    gpus: int | None = 8
    """None: its agent can't count them."""
    hcas: int | None = None
    faults: list[Fault] = field(default_factory=list[Fault])
    jobs: list[int] | None = field(default_factory=list[int])
    """With processes alive; None: its agent can't tell."""
    reports: bool = True
    power_known: bool = True

    def __post_init__(self) -> None:
        self.boot_id = self.boot_id or f"boot-{next(_boots)}"


@dataclass
class Yard:
    kube: MemoryKube
    clock: Clock
    machines: dict[str, FakeMachine] = field(default_factory=dict[str, FakeMachine])
    log: list[tuple[str, str]] = field(default_factory=list[tuple[str, str]])
    skew: timedelta = timedelta(0)
    """How wrong the agents' clocks are."""
    more: str = ""
    """What is said when more machines are asked for."""

    keeps_node: bool = False
    """A machine that leaves the pool stays in the cluster, as warm nodes do."""

    def add(self, *names: str, **facts: Any) -> None:
        for name in names:
            self.machines[name] = FakeMachine(name, **facts)

    def settle(self) -> None:
        """Kubelets and agents of joined machines do what they do."""
        for machine in self.machines.values():
            if machine.joined is None or not machine.on:
                continue
            node = self.kube.peek(NODE, machine.name) or self._new_node(machine)
            conditions = [{"type": "Ready", "status": "True"}]
            node["status"] = {
                "conditions": conditions,
                "nodeInfo": {"bootID": machine.boot_id},
                "allocatable": {GPU_RESOURCE: str(8 if machine.gpus is None else machine.gpus)},
            }
            self.kube.put(NODE, node)
            if machine.reports:
                self._report(machine)

    def _new_node(self, machine: FakeMachine) -> Json:
        assert machine.joined is not None
        taints = [{"key": t.key, "effect": t.effect, "value": t.value} for t in machine.joined.taints]
        return {"metadata": {"name": machine.name, "labels": dict(machine.joined.labels)}, "spec": {"taints": taints}}

    def _report(self, machine: FakeMachine) -> None:
        status = NodeHealthStatus(
            boot_id=machine.boot_id,
            heartbeat_time=self.clock.now() + self.skew,
            gpus=DeviceCount(expected=8, seen=machine.gpus),
            hcas=DeviceCount(expected=0, seen=machine.hcas),
            faults=machine.faults,
            jobs=[JobProcesses(job_id=job, processes=2) for job in machine.jobs or ()],
            jobs_observed_time=None if machine.jobs is None else self.clock.now(),
        )
        body = NodeHealth(metadata=ObjectMeta(name=machine.name), status=status).to_wire()
        self.kube.put(NODE_HEALTH, body)

    # ------------------------------------------------------------------ the port
    async def other_healer(self) -> str:
        return ""

    async def find_more(self, lacking: int) -> str:
        return self.more

    async def list_hosts(self) -> list[Inventory]:
        return [
            Inventory(
                machine.name,
                f"machines://{machine.name}",
                machine.instance_type,
                machine.fabric_block,
                machine.nvlink_domain,
                machine.resources,
            )
            for machine in self.machines.values()
        ]

    async def power_on(self, host: str) -> None:
        machine = self._machine("power_on", host)
        if not machine.on:
            machine.on, machine.boot_id = True, f"boot-{next(_boots)}"

    async def join(self, request: JoinRequest) -> None:
        self._reach("join", request.host).joined = request

    async def prove_off(self, host: str, *, power_off: bool) -> Proof:
        machine = self._machine("prove_off", host)
        if not machine.power_known:
            return Proof.UNKNOWN
        if power_off:
            machine.on, machine.joined = False, None
        return Proof.ON if machine.on else Proof.OFF

    async def reboot(self, host: str) -> None:
        self._machine("reboot", host).boot_id = f"boot-{next(_boots)}"

    async def leave(self, host: str) -> None:
        machine = self._reach("leave", host)
        machine.joined = machine.joined if self.keeps_node else None

    async def quarantine(self, host: str, reason: str) -> None:
        self._machine("quarantine", host)

    async def release(self, host: str) -> None:
        await self.leave(host)

    def _machine(self, verb: str, host: str) -> FakeMachine:
        self.log.append((verb, host))
        if host not in self.machines:
            raise CapacityError(f"machine {host} is not in the pool's inventory")
        return self.machines[host]

    def _reach(self, verb: str, host: str) -> FakeMachine:
        machine = self._machine(verb, host)
        if machine.refuses_key:
            raise CapacityError(f"machine {host} refuses the key")
        if not machine.reachable or not machine.on:
            raise UnreachableError(f"machine {host} can't be reached; is it on?")
        return machine


def pool_of(kube: MemoryKube, size: int, **changes: Any) -> GpuPool:
    """A GpuPool in the cluster, its generation one more for each call that changes it."""
    endpoint = SshEndpoint(address="127.0.0.1", host_key="unused")
    backend = MachinesBackend(key_ref=SecretKeyRef(name="s", key="k"), machines=[Machine(name="unused", ssh=endpoint)])
    reference = NodeSetRef(namespace="slurm", name=POOL)
    changes = {"spares": 1, "backend": backend, **changes}
    spec = GpuPoolSpec(size=size, node_set_ref=reference, **changes)
    body = GpuPool(metadata=ObjectMeta(name=POOL, namespace=NAMESPACE), spec=spec).to_wire()
    present = kube.peek(GPU_POOL, POOL, NAMESPACE)
    body["status"] = (present or {}).get("status", {})
    return GpuPool.from_wire(kube.put(GPU_POOL, body, NAMESPACE))


def active_nodes(kube: MemoryKube, names: list[str]) -> set[str]:
    """Nodes that the pool's workers may run on."""
    found = {name: kube.peek(NODE, name) for name in names}
    return {
        name
        for name, node in found.items()
        if node is not None
        and labels_of(node).get(LABEL_ROLE) == ROLE_ACTIVE
        and not has_taint(node, TAINT_JOINING)
        and not node.get("spec", {}).get("unschedulable")
    }


def serious_fault(clock: Clock) -> Fault:
    return Fault(code="XID 79", action=Action.REPLACE, first_seen=clock.now(), last_seen=clock.now())
