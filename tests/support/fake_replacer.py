"""Capacity in memory: hosts with claims, joined as tainted Nodes, retired out of the cluster."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection
from dataclasses import dataclass, field

from sparewheel.api.base import ObjectMeta
from sparewheel.api.gpu_host import Claim, GpuHost, GpuHostSpec, GpuHostStatus, HostPhase
from sparewheel.api.gpu_pool import GpuPool
from sparewheel.api.names import (
    GPU_RESOURCE,
    LABEL_POOL,
    LABEL_ROLE,
    ROLE_ACTIVE,
    SPARE_WARM,
    TAINT_JOINING,
    TAINT_SPARE,
)
from sparewheel.api.spare_test import SpareTest
from sparewheel.capacity.leftovers import Leftovers
from sparewheel.capacity.port import (
    BadNode,
    CapacityError,
    Check,
    CheckResult,
    Choice,
    Proof,
    UnfitError,
    UnreachableError,
)
from sparewheel.clock import Clock
from sparewheel.kube.memory import MemoryKube
from sparewheel.kube.port import GPU_HOST, NODE

JOIN_SECONDS = 2.0


@dataclass
class FakeHost:
    name: str
    phase: str = "Spare"
    node: str = ""
    owner: str = ""
    fit: bool = True
    power: str = "on"
    ready_at: float = 0.0
    reason: str = ""
    unfit: str = ""
    """It can't take the place any more; each look at it says so, before it joins too."""
    reachable: bool = True
    test: SpareTest | None = None
    test_job_id: int | None = None


@dataclass
class FakeReplacer:
    """Implements ``sparewheel.remediation.stages.replacer.Replacer``."""

    kube: MemoryKube
    clock: Clock
    hosts: dict[str, FakeHost] = field(default_factory=dict[str, FakeHost])
    can_power: bool = True
    keeps_node: bool = False
    """A spare that is given back stays in the cluster, with all that runs on it."""
    log: list[tuple[str, str]] = field(default_factory=list[tuple[str, str]])
    refused: dict[str, str] = field(default_factory=dict[str, str])
    """What the backend says instead of doing what is asked of a host; "" stands for all of them together."""
    others: str | Exception | asyncio.Event = ""
    """Who else heals the nodes, or why that can't be told; an event: told once it happens."""
    on_reboot: Callable[[str], None] = lambda _host: None
    """What a power cycle does to the host."""
    _published: dict[str, tuple[str, ...]] = field(default_factory=dict[str, tuple[str, ...]])

    async def host_of(self, pool: GpuPool, node: str) -> str | None:
        return next((host.name for host in self.hosts.values() if host.node == node), None)

    async def other_healer(self, pool: GpuPool) -> str:
        await asyncio.sleep(0)
        if isinstance(self.others, Exception):
            raise self.others
        if isinstance(self.others, asyncio.Event):
            await self.others.wait()
        return self.others if isinstance(self.others, str) else ""

    async def pool_hosts(self, pool: GpuPool) -> list[GpuHost]:
        await asyncio.sleep(0)
        return [self._view(host, pool) for host in self.hosts.values()]

    def publish(self, pool: GpuPool) -> None:
        """The hosts as GpuHosts, which the controller watches."""
        for host in self.hosts.values():
            state = (host.phase, host.node, host.owner, str(host.test), str(host.test_job_id))
            if self._published.get(host.name) != state:
                self._published[host.name] = state
                self.kube.put(GPU_HOST, self._view(host, pool).to_wire(), "sparewheel")

    def _view(self, host: FakeHost, pool: GpuPool) -> GpuHost:
        claim = Claim(owner=host.owner, time=self.clock.now()) if host.owner else None
        status = GpuHostStatus(
            phase=HostPhase(host.phase),
            node_name=host.node or None,
            claim=claim,
            slurm_test=host.test,
            test_job_id=host.test_job_id,
            quarantine_reason=host.reason if host.phase == "Quarantined" else "",
        )
        spec = GpuHostSpec(pool=pool.metadata.name, host=host.name, provider_id=f"machines://{host.name}")
        return GpuHost(metadata=ObjectMeta(name=host.name, namespace="sparewheel"), spec=spec, status=status)

    async def seat(self, pool: GpuPool, host: str) -> CheckResult:
        await asyncio.sleep(0)
        found = self.hosts[host]
        if found.phase != "Spare" or found.owner or not found.node:
            return CheckResult(Check.WAIT, "it to be a free spare")
        if not found.fit:
            return CheckResult(Check.REFUSED, "7 of 8 GPUs")
        self.log.append(("seat", host))
        node = self.kube.peek(NODE, host)
        assert node is not None
        for taint in node["spec"]["taints"]:
            taint["value"] = SPARE_WARM if taint["key"] == TAINT_SPARE else ""
        self.kube.put(NODE, node)
        return CheckResult(Check.PASSED)

    async def note_test(self, pool: GpuPool, host: str, test: SpareTest | int) -> None:
        await asyncio.sleep(0)
        found = self.hosts[host]
        if isinstance(test, SpareTest):
            found.test, found.test_job_id = test, None
        else:
            found.test_job_id = test

    async def quarantine_spare(self, pool: GpuPool, host: str, reason: str) -> None:
        await asyncio.sleep(0)
        found = self.hosts[host]
        if found.phase != "Spare" or found.owner:
            return
        self.log.append(("quarantine", host))
        found.phase, found.reason, found.node = "Quarantined", reason, ""
        self.kube.drop(NODE, host)

    async def unseat(self, pool: GpuPool, host: str) -> None:
        await asyncio.sleep(0)
        self.log.append(("unseat", host))
        node = self.kube.peek(NODE, self.hosts[host].node)
        assert node is not None
        node["spec"]["taints"] = [{k: v for k, v in taint.items() if k != "value"} for taint in node["spec"]["taints"]]
        self.kube.put(NODE, node)

    async def claim_spare(self, pool: GpuPool, owner: str, near_host: str | None, refused: Collection[str]) -> Choice:
        await asyncio.sleep(0)
        self._allowed("")
        held = [host for host in self.hosts.values() if host.owner == owner and host.phase != "Active"]
        left = Leftovers(self.kube, self.clock)
        views = {host.name: self._view(host, pool) for host in self._free(refused)}
        free = None if held else await anext(left.without(views.values()), None)
        chosen = held[0] if held else self.hosts[free.spec.host] if free is not None else None
        if chosen is None or (not held and chosen.owner):
            return Choice(None, "; ".join(f"{name}: {why}" for name, why in left.found.items() if why))
        self.log += [("claim", chosen.name), ("claim_owner", owner)]
        chosen.owner = owner
        return Choice(chosen.name, "same type")

    def freed(self, pool: str) -> None:
        """It looks each time."""

    async def would_claim(self, pool: GpuPool, near_host: str | None) -> Choice:
        free = [host.name for host in self.hosts.values() if host.phase == "Spare" and not host.owner]
        return Choice(free[0], "same type") if free else Choice(None, "none stands by")

    async def holds(self, pool: GpuPool, host: str, owner: str) -> bool:
        await asyncio.sleep(0)
        return self.hosts[host].owner == owner

    async def join_spare(
        self, pool: GpuPool, host: str, owner: str, near_host: str | None = None, *, takes_jobs: bool = False
    ) -> str:
        self._mine(host, owner)
        self._allowed(host)
        found = self.hosts[host]
        if found.unfit:
            raise UnfitError(f"spare {host}: {found.unfit}", ill=True)
        if found.phase == "Spare" and not takes_jobs and (left := await self._left(found, pool)):
            raise UnfitError(f"spare {host}: {left}", ill=False)
        if not found.reachable:
            raise UnreachableError(f"machine {host} can't be reached; is it on?")
        if found.phase != "Joining":
            warm = bool(found.node)
            found.phase, found.node = "Joining", host
            found.ready_at = self.clock.monotonic_seconds() + (0.0 if warm else JOIN_SECONDS)
        self.log.append(("join", host))
        return host

    async def check_spare(self, pool: GpuPool, host: str, owner: str, *, takes_jobs: bool = False) -> CheckResult:
        self._mine(host, owner)
        found = self.hosts[host]
        if not takes_jobs and (left := await self._left(found, pool)):
            return CheckResult(Check.WAIT, left)
        if self.clock.monotonic_seconds() < found.ready_at:
            return CheckResult(Check.WAIT, "its node is not Ready")
        if not found.fit or found.unfit:
            return CheckResult(Check.REFUSED, found.unfit or "7 of 8 GPUs")
        if self.kube.peek(NODE, host) is None:
            put_node(self.kube, host, pool.metadata.name, taints=[TAINT_JOINING])
        return CheckResult(Check.PASSED)

    async def admit(self, pool: GpuPool, host: str, owner: str) -> None:
        self._mine(host, owner)
        self.log.append(("admit", host))
        self.hosts[host].phase = "Active"
        put_node(self.kube, host, pool.metadata.name, taints=[])

    async def give_up(self, pool: GpuPool, host: str, owner: str, reason: str, *, quarantine: bool) -> None:
        found = self.hosts[host]
        if found.owner != owner:
            return
        self.log.append(("give_up", host))
        if found.phase == "Spare" and not quarantine:
            found.owner = ""  # it stands by again where it is
            return
        found.owner, found.phase, found.reason, found.node = "", "Quarantined" if quarantine else "Spare", reason, ""
        if self.keeps_node and not quarantine:
            found.node, found.reason = host, ""
            put_node(self.kube, host, pool.metadata.name, taints=[TAINT_SPARE])
        elif self.kube.peek(NODE, host) is not None:
            self.kube.drop(NODE, host)

    async def another_free(self, pool: GpuPool, near_host: str | None, refused: Collection[str]) -> bool:
        await asyncio.sleep(0)
        return any(not host.reason for host in self._free(refused))

    async def pass_over(self, pool: GpuPool, host: str, owner: str, reason: str) -> None:
        await asyncio.sleep(0)
        found = self.hosts[host]
        if found.owner == owner:
            self.log.append(("pass_over", host))
            found.owner, found.phase, found.reason = "", "Spare", reason

    def _free(self, refused: Collection[str]) -> list[FakeHost]:
        free = [h for h in self.hosts.values() if h.phase == "Spare" and not h.owner and h.name not in refused]
        return sorted(free, key=lambda host: bool(host.reason))

    async def prove_off(self, pool: GpuPool, host: str, *, power_off: bool) -> Proof:
        await asyncio.sleep(0)
        found = self.hosts[host]
        self.log.append(("prove_off", f"{host} power_off={power_off}"))
        if power_off and self.can_power:
            found.power = "off"
        return {"off": Proof.OFF, "on": Proof.ON}.get(found.power, Proof.UNKNOWN)

    async def reboot(self, pool: GpuPool, host: str) -> None:
        await asyncio.sleep(0)
        self._allowed(host)
        self.log.append(("reboot", host))
        self.on_reboot(host)

    async def retire(self, pool: GpuPool, host: str, bad: BadNode, owner: str) -> None:
        await asyncio.sleep(0)
        self._allowed(host)
        self.log.append(("retire", host))
        if self.kube.peek(NODE, bad.node) is not None:
            self.kube.drop(NODE, bad.node)
        found = self.hosts[host]
        found.phase, found.node, found.reason, found.owner = "Quarantined", "", bad.reason, ""
        await self.settle(pool, owner)

    async def settle(self, pool: GpuPool, owner: str) -> None:
        await asyncio.sleep(0)
        for spare in self.hosts.values():
            if spare.owner == owner and spare.phase == "Active":
                spare.owner = ""

    async def _left(self, host: FakeHost, pool: GpuPool) -> str:
        return await Leftovers(self.kube, self.clock).on(self._view(host, pool))

    def _allowed(self, host: str) -> None:
        if host in self.refused:
            raise CapacityError(self.refused[host])

    def _mine(self, host: str, owner: str) -> None:
        if self.hosts[host].owner != owner:
            raise CapacityError(f"host {host} is claimed by {self.hosts[host].owner or 'nobody'}; claim it first")


def put_node(kube: MemoryKube, name: str, pool: str, taints: list[str]) -> None:
    existing = kube.peek(NODE, name)
    body = existing or {
        "metadata": {"name": name},
        "spec": {},
        "status": {
            "conditions": [{"type": "Ready", "status": "True"}],
            "nodeInfo": {"bootID": f"boot-{name}"},
            "allocatable": {GPU_RESOURCE: "8"},
        },
    }
    body["metadata"]["labels"] = {LABEL_POOL: pool, LABEL_ROLE: ROLE_ACTIVE if not taints else "joining"}
    body["spec"]["taints"] = [{"key": key, "effect": "NoSchedule"} for key in taints]
    kube.put(NODE, body)
