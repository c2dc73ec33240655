"""The cloud behind the API: VMs, node pools that keep their count, stock that runs out, operations that take time."""

from __future__ import annotations

import uuid
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import timedelta
from random import Random
from typing import Any

from sparewheel.clock import Clock

Json = dict[str, Any]
NO_STOCK = "Out of Stock: no host of this type is free"


@dataclass(slots=True)
class Play:
    """What isn't published of the real service, and so may be set."""

    page_size: int = 50
    operation_seconds: float = 4.0
    new_vm_seconds: float = 20.0
    """Until a VM that was deleted below the count has its successor."""
    clock_window_seconds: float = 300.0
    operation_kept_seconds: float = 3600.0
    forgets_what_was_read: bool = False
    gone_status: int = 403
    latency_seconds: float = 0.0
    kubeconfig: str = ""
    """What every cluster's credentials hold as a whole kubeconfig; without it there are only its parts."""


@dataclass(slots=True)
class Vm:
    id: str
    name: str
    type: str
    location: str
    pool: str = ""
    state: str = "STATE_RUNNING"
    boots: int = 1
    pod_id: str = ""

    def wire(self, project: str) -> Json:
        address = {"private_ipv4": {"address": "10.0.0.1"}, "public_ipv4": {"id": "", "address": "", "type": ""}}
        return {
            "id": self.id, "project_id": project, "name": self.name, "type": self.type, "state": self.state,
            "location": self.location, "disks": [], "network_interfaces": [{"ips": [address]}],
            "host_channel_adapters": [], "maintenance_policy": "manual", "created_at": "", "updated_at": "",
            "pod_id": self.pod_id,
        }  # fmt: skip


@dataclass(slots=True)
class Pool:
    id: str
    name: str
    cluster: str
    type: str
    location: str
    count: int
    labels: dict[str, str] = field(default_factory=dict[str, str])
    taints: list[Json] = field(default_factory=list[Json])
    state: str = "STATE_RUNNING"
    made: int = 0
    updated_at: str = ""


@dataclass(slots=True)
class Operation:
    id: str
    resource: str
    due: float
    effect: Callable[[], Json]
    """Done when it is due; raises OperationFailed."""
    kind: str = ""
    state: str = "IN_PROGRESS"
    result: Json | None = None
    metadata: Json = field(default_factory=dict[str, Any])
    ended: float = 0.0

    def wire(self) -> Json:
        return {
            "operation_id": self.id, "state": self.state, "metadata": self.metadata, "result": self.result,
            "started_at": "2026-01-01T00:00:00Z", "completed_at": "2026-01-01T00:00:01Z" if self.ended else "",
        }  # fmt: skip


class OperationFailed(Exception):  # noqa: N818 - the state's name
    """The operation ends as FAILED with this message."""


class Cloud:
    """One project. Ask ``settle`` before looking: time has passed."""

    def __init__(self, clock: Clock, project: str, play: Play | None = None, seed: int = 1) -> None:
        self.clock, self.project, self.play = clock, project, play or Play()
        self.random = Random(seed)
        self.vms: dict[str, Vm] = {}
        self.pools: dict[str, Pool] = {}
        self.clusters: dict[str, Json] = {}
        self.operations: dict[str, Operation] = {}
        self.stock: dict[str, int] = {}
        self.auto_clusters: dict[str, Json] = {}
        self.reservations: dict[str, Json] = {}
        self.later: list[tuple[float, Callable[[], None]]] = []
        self.on_boot: Callable[[Vm], None] = lambda _: None

    def new_id(self) -> str:
        return str(uuid.UUID(int=self.random.getrandbits(128), version=4))

    def add_pool(self, name: str, cluster: str, kind: str, count: int, **more: Any) -> Pool:
        pool = Pool(self.new_id(), name, cluster, kind, more.pop("location", "us-east1-a"), count, **more)
        self.pools[pool.id] = pool
        self.touch(pool)
        self.fill(pool)
        return pool

    def touch(self, pool: Pool) -> None:
        pool.updated_at = self.clock.now().strftime("%Y-%m-%dT%H:%M:%SZ")

    def members(self, pool: Pool) -> list[Vm]:
        return [vm for vm in self.vms.values() if vm.pool == pool.id]

    def fill(self, pool: Pool) -> str:
        """Make VMs up to the count; what is in the way, where stock ran out."""
        while len(self.members(pool)) < pool.count:
            if not self.take(pool.type):
                return NO_STOCK
            pool.made += 1
            vm = Vm(self.new_id(), f"{pool.name}-{pool.made}", pool.type, pool.location, pool.id)
            self.vms[vm.id] = vm
            self.on_boot(vm)
        return ""

    def take(self, kind: str) -> bool:
        if self.stock.get(kind, 0) < 1:
            return False
        self.stock[kind] -= 1
        return True

    def give(self, kind: str) -> None:
        self.stock[kind] = self.stock.get(kind, 0) + 1

    def begin(self, resource: str, effect: Callable[[], Json], kind: str = "", **metadata: Any) -> Operation:
        due = self.clock.monotonic_seconds() + self.play.operation_seconds
        operation = Operation(self.new_id().upper(), resource, due, effect, kind, metadata=metadata)
        self.operations[operation.id] = operation
        return operation

    def busy(self, resource: str) -> bool:
        return any(one.resource == resource and one.state == "IN_PROGRESS" for one in self.operations.values())

    def settle(self) -> None:
        """Everything that is due by now has happened."""
        now = self.clock.monotonic_seconds()
        for operation in [one for one in self.operations.values() if one.state == "IN_PROGRESS" and one.due <= now]:
            try:
                operation.result, operation.state = operation.effect(), "SUCCEEDED"
            except OperationFailed as error:
                operation.result, operation.state = {"code": "13", "message": str(error)}, "FAILED"
            operation.ended = now
        kept = self.play.operation_kept_seconds
        self.operations = {key: one for key, one in self.operations.items() if not one.ended or now - one.ended <= kept}
        due = [entry for entry in self.later if entry[0] <= now]
        self.later = [entry for entry in self.later if entry[0] > now]
        for _, change in due:
            change()

    # ------------------------------------------------------------------ what operations do

    def start(self, vm: Vm) -> Json:
        if not self.take(vm.type):
            raise OperationFailed(f"rpc error: code = ResourceExhausted desc = {NO_STOCK}")
        vm.state, vm.boots = "STATE_RUNNING", vm.boots + 1
        self.on_boot(vm)
        return vm.wire(self.project)

    def stop(self, vm: Vm) -> Json:
        vm.state = "STATE_STOPPED"
        self.give(vm.type)
        return vm.wire(self.project)

    def reset(self, vm: Vm) -> Json:
        vm.boots += 1
        self.on_boot(vm)
        return vm.wire(self.project)

    def delete(self, vm: Vm) -> Json:
        """Its pool, if it still counts it, makes another with a new name and id after a while."""
        if self.vms.pop(vm.id, None) is None:
            return {}
        if vm.state == "STATE_RUNNING":
            self.give(vm.type)
        pool = self.pools.get(vm.pool)
        if pool is not None:
            due = self.clock.monotonic_seconds() + timedelta(seconds=self.play.new_vm_seconds).total_seconds()
            self.later.append((due, lambda: self.refill(pool)))
        return {}

    def remove(self, pool: Pool) -> Json:
        del self.pools[pool.id]
        for vm in self.members(pool):
            self.delete(vm)
        return {}

    def refill(self, pool: Pool) -> None:
        """Stock may come back later: the pool goes on trying."""
        if self.fill(pool) and pool.id in self.pools:
            self.later.append((self.clock.monotonic_seconds() + self.play.new_vm_seconds, lambda: self.refill(pool)))

    def resize(self, pool: Pool, count: int, stale: Json) -> Json:
        """Lowering deletes nothing. The pool in the result is the one from before; too few VMs is a success."""
        pool.count = count
        self.touch(pool)
        return {"node_pool": stale, "details": {"error": self.fill(pool), "num_vms_created": 0}}
