"""Gives a pool's machines back: drained, out of the cluster, GpuHost gone. For the end of a pool, not for a fault."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, cast

from sparewheel.api.gpu_host import GpuHost, HostPhase
from sparewheel.api.gpu_pool import GpuPool
from sparewheel.capacity.hosts import hosts_of
from sparewheel.capacity.nodes import cordoning, delete_node, edit_node, find_node
from sparewheel.capacity.port import CapacityError, CapacityProvider, Proof
from sparewheel.clock import Clock
from sparewheel.kube.port import GPU_HOST, POD, ConflictError, Json, Kube, NotFoundError, TooManyRequestsError

LOOK_SECONDS = 1.0
Say = Callable[[str], None]
Check = Callable[[], None]


async def release_hosts(
    kube: Kube, provider: CapacityProvider, pool: GpuPool, clock: Clock, *, before_write: Check, say: Say
) -> None:
    """Returns when the pool has no GpuHost any more. Cut at any moment, it goes on where it stopped."""
    namespace, name = pool.metadata.namespace or "", pool.metadata.name
    until = clock.monotonic_seconds() + pool.spec.drain_deadline_seconds
    leaving = _Leaving(kube, provider, namespace, clock, until, before_write, say)
    await asyncio.gather(*(leaving.release(host) for host in await hosts_of(kube, namespace, name)))
    left = ", ".join(host.spec.host for host in await hosts_of(kube, namespace, name))
    if left:
        raise CapacityError(f"pool {name}: hosts {left} appeared while it was released; run it again")


@dataclass(frozen=True, slots=True)
class _Leaving:
    kube: Kube
    provider: CapacityProvider
    namespace: str
    clock: Clock
    drain_until: float
    """On the monotonic clock: disruption budgets are honoured until then."""
    check: Check
    say: Say

    async def release(self, host: GpuHost) -> None:
        name = host.spec.host
        node = await find_node(self.kube, host.status.node_name or name)
        # A quarantined node that stays in the cluster stays quarantined: giving it back would give away a bad one.
        stays = self.provider.keeps_node and host.status.phase is HostPhase.QUARANTINED
        if node is not None and not stays:
            if host.status.phase is not HostPhase.SPARE:
                self.check()
                await edit_node(self.kube, str(node["metadata"]["name"]), cordoning)
                await self._drain(str(node["metadata"]["name"]))
            await self._take_out(name, str(node["metadata"]["name"]))
        self.check()
        with suppress(NotFoundError):
            await self.kube.delete(GPU_HOST, host.metadata.name, self.namespace, uid=host.metadata.uid)
        self.say(f"host {name} is released")

    async def _take_out(self, host: str, node: str) -> None:
        self.check()
        try:
            await self.provider.release(host)
        except CapacityError as error:
            if self.provider.keeps_node or await self.provider.prove_off(host, power_off=True) is not Proof.OFF:
                raise CapacityError(f"host {host} is neither out of the cluster nor proven off: {error}") from error
        if not self.provider.keeps_node:
            await delete_node(self.kube, node)

    async def _drain(self, node: str) -> None:
        """Evict what a drain evicts, until it is gone or the deadline is over; then the host leaves anyway."""
        while True:
            listing = await self.kube.list(POD, field_selector=f"spec.nodeName={node}")
            pods = [pod for pod in listing.items if _evictable(pod)]
            if not pods:
                return
            if self.clock.monotonic_seconds() >= self.drain_until:
                self.say(f"node {node}: {len(pods)} pods still there at the drain deadline; it leaves all the same")
                return
            self.say(f"node {node}: {len(pods)} pods to go")
            for pod in pods:
                await self._evict(pod)
            await self.clock.sleep(LOOK_SECONDS)

    async def _evict(self, pod: Json) -> None:
        metadata = pod["metadata"]
        if metadata.get("deletionTimestamp"):
            return
        self.check()
        with suppress(TooManyRequestsError, NotFoundError, ConflictError):
            await self.kube.evict(metadata["name"], metadata["namespace"], uid=metadata["uid"])


def _evictable(pod: Json) -> bool:
    """Not a DaemonSet's pod, which would come back, nor a static one, nor one of which nothing runs any more."""
    owners = cast("list[dict[str, Any]]", pod["metadata"].get("ownerReferences") or [])
    if any(owner["kind"] in ("DaemonSet", "Node") for owner in owners):
        return False
    status = cast("dict[str, Any]", pod.get("status") or {})
    if status.get("phase") in ("Succeeded", "Failed"):
        return False
    return not (pod["metadata"].get("deletionTimestamp") and _all_ended(status))


def _all_ended(status: dict[str, Any]) -> bool:
    """Did every container end? The object itself may stay for a minute, until its disks are unmounted."""
    fields = ("containerStatuses", "initContainerStatuses")
    containers = [item for field in fields for item in cast("list[dict[str, Any]]", status.get(field) or [])]
    return bool(containers) and all("terminated" in (item.get("state") or {}) for item in containers)
