"""A pool with spares in memory and the replacer over it."""

from __future__ import annotations

from typing import Any

from sparewheel.api.gpu_host import HostPhase
from sparewheel.api.gpu_pool import GpuPool
from sparewheel.api.names import NAMESPACE
from sparewheel.capacity.claims import owner_of
from sparewheel.capacity.heard import Reports
from sparewheel.capacity.hosts import read_host
from sparewheel.capacity.port import (
    BadNode,
    CapacityProvider,
    Check,
)
from sparewheel.capacity.reconcile import reconcile_pool
from sparewheel.capacity.replacer import PoolReplacer
from sparewheel.kube.memory import MemoryKube
from sparewheel.kube.port import NODE
from tests.support.clocks import StillClock
from tests.support.yard import POOL, Yard, pool_of

OWNER = "remediation/inc"


class Scene:
    def __init__(self) -> None:
        self.clock, self.reports = StillClock(), Reports()
        self.kube = MemoryKube(clock=self.clock)
        self.yard = Yard(self.kube, self.clock)
        self.replacer = PoolReplacer(self.kube, self.clock, self.provider_of, self.reports)
        self.pool: GpuPool

    async def provider_of(self, pool: GpuPool) -> CapacityProvider:
        return self.yard

    async def build(self) -> None:
        await self.build_up(2)

    async def build_up(self, size: int, **changes: Any) -> None:
        self.pool = pool_of(self.kube, size, **changes)
        for _ in range(20):
            self.clock.seconds += 1
            self.yard.settle()
            if (await reconcile_pool(self.kube, NAMESPACE, POOL, self.clock, self.reports, provider=self.yard)).settled:
                return
        raise AssertionError("not built")

    def bad(self) -> BadNode:
        node = self.kube.peek(NODE, "gpu-1")
        assert node is not None
        return BadNode("gpu-1", node["metadata"]["uid"], self.yard.machines["gpu-1"].boot_id, "XID 79: replace (inc)")

    async def join(self) -> None:
        """The claimed spare, which is looked at until its agent reports."""
        await self.replacer.join_spare(self.pool, "gpu-3", OWNER)
        assert (await self.replacer.check_spare(self.pool, "gpu-3", OWNER)).check is Check.WAIT
        self.yard.settle()

    async def phase(self, name: str) -> tuple[HostPhase, str | None]:
        host = await read_host(self.kube, NAMESPACE, name)
        return host.status.phase, owner_of(host)


async def new_scene() -> Scene:
    """With three machines in it."""
    scene = Scene()
    scene.yard.add("gpu-1", "gpu-2", "gpu-3")
    await scene.build()
    return scene
