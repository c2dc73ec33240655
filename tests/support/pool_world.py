"""One pool on machines in memory, looked at again and again until it is as its spec says."""

from __future__ import annotations

from dataclasses import dataclass, field

from sparewheel.api.gpu_pool import GpuPool
from sparewheel.api.names import NAMESPACE
from sparewheel.capacity.heard import Reports
from sparewheel.capacity.pool_report import ReconcileResult
from sparewheel.capacity.reconcile import reconcile_pool
from sparewheel.kube.memory import MemoryKube
from sparewheel.kube.port import GPU_HOST, GPU_POOL, Kube
from tests.support.clocks import StillClock
from tests.support.yard import POOL, Yard, active_nodes


@dataclass
class World:
    clock: StillClock
    kube: MemoryKube
    yard: Yard
    busy: set[str] = field(default_factory=set[str])
    reports: Reports = field(default_factory=Reports)

    async def idle(self, kube: Kube, pool: GpuPool, node: str) -> str:
        return f"jobs on {node} to end" if node in self.busy else ""

    async def once(self) -> ReconcileResult:
        self.clock.seconds += 1
        self.yard.settle()
        return await reconcile_pool(
            self.kube, NAMESPACE, POOL, self.clock, self.reports, provider=self.yard, idle=self.idle
        )

    async def settle(self, tries: int = 30) -> ReconcileResult:
        message = ""
        for _ in range(tries):
            result = await self.once()
            if result.settled:
                return result
            message = result.message
        raise AssertionError(f"not settled after {tries} looks: {message}")

    def hosts(self) -> dict[str, str]:
        """Phase by host."""
        found = {name: self.kube.peek(GPU_HOST, name, NAMESPACE) for name in self.yard.machines}
        return {name: body.get("status", {}).get("phase", "-") for name, body in found.items() if body is not None}

    def active(self) -> set[str]:
        return active_nodes(self.kube, list(self.yard.machines))

    def pool(self) -> GpuPool:
        body = self.kube.peek(GPU_POOL, POOL, NAMESPACE)
        assert body is not None
        return GpuPool.from_wire(body)


def new_world() -> World:
    clock = StillClock()
    kube = MemoryKube(clock=clock)
    return World(clock, kube, Yard(kube, clock))
