"""Asks whether job processes are left on hosts that stand by, as their agents said last."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterable
from dataclasses import dataclass, field

from sparewheel.api.gpu_host import GpuHost
from sparewheel.api.node_health import NodeHealth
from sparewheel.capacity.nodes import boot_id_of, find_node
from sparewheel.clock import Clock
from sparewheel.kube.port import NODE_HEALTH, Kube, NotFoundError
from sparewheel.remediation.decide.leftovers import left_over


@dataclass(slots=True)
class Leftovers:
    """One search for a spare; each host is asked about once, and only when it would be taken."""

    kube: Kube
    clock: Clock
    found: dict[str, str] = field(default_factory=dict[str, str])
    """What keeps a host from work, by host; empty where nothing does."""

    async def on(self, host: GpuHost) -> str:
        """What keeps the host from work.

        An agent that fell silent since is not asked again: its last word counts, and the checks wait for a fresh one.
        Outside the cluster, or since another boot, nothing is known: join and checks say it.
        """
        name = host.spec.host
        if name not in self.found:
            self.found[name] = await self._look(host)
        return self.found[name]

    async def without(self, hosts: Iterable[GpuHost]) -> AsyncIterator[GpuHost]:
        for host in hosts:
            if not await self.on(host):
                yield host

    async def _look(self, host: GpuHost) -> str:
        name = host.status.node_name or host.spec.host
        node = await find_node(self.kube, name)
        if node is None:
            return ""
        try:
            health = NodeHealth.from_wire(await self.kube.get(NODE_HEALTH, name)).status
        except NotFoundError:
            return ""
        return left_over(host, health, self.clock.now()) if health.boot_id == boot_id_of(node) else ""
