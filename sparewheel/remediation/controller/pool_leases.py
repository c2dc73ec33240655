"""The pools' leases: held while an incident of the pool is healed; then ``pulumi up`` waits its turn, and we ours."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Final

from sparewheel.api.names import pool_lease
from sparewheel.clock import Clock
from sparewheel.kube.lease import LeaseHandle, LeaseLostError, LeaseTiming, WhileWaiting, held
from sparewheel.kube.lease_object import Holder
from sparewheel.kube.port import Kube

TIMING: Final = LeaseTiming(duration_seconds=15, renew_seconds=4.0)
"""A storm has one for each pool: renewed as often as the controller's own they would take a fifth of its pace."""


@dataclass(slots=True)
class _Held:
    task: asyncio.Task[None]
    handle: LeaseHandle | None = None
    holder: str = ""


@dataclass(slots=True)
class PoolLeases:
    kube: Kube
    clock: Clock
    namespace: str
    identity: str
    version: str
    _pools: dict[str, _Held] = field(default_factory=dict[str, _Held])

    async def drive(self, pool: str) -> str:
        """Empty when the pool is ours to drive now, else what is waited for."""
        known = self._pools.get(pool)
        if known is None or known.task.done():
            known = self._start(pool)
        for _ in range(8):  # a free lease is taken in a few requests: worth waiting for
            if known.handle is not None:
                try:
                    known.handle.check()
                except LeaseLostError:
                    break
                return ""
            if known.holder:
                break
            await self.clock.sleep(0.05)
        holder = f", held by {known.holder}" if known.holder else ""
        return f"the lease of pool {pool}{holder}"

    def _start(self, pool: str) -> _Held:
        entry = _Held(task=asyncio.create_task(asyncio.sleep(0)))
        entry.task = asyncio.create_task(self._hold(pool, entry), name=f"pool lease {pool}")
        self._pools[pool] = entry
        return entry

    async def _hold(self, pool: str, entry: _Held) -> None:
        def waits(holder: Holder) -> None:
            entry.holder = holder.identity

        with suppress(LeaseLostError):
            async with held(
                self.kube,
                pool_lease(pool),
                self.namespace,
                self.identity,
                self.clock,
                version=self.version,
                timing=TIMING,
                while_waiting=WhileWaiting(waits),
            ) as handle:
                entry.handle, entry.holder = handle, ""
                await handle.lost.wait()

    def check(self, pool: str) -> None:
        """Raise LeaseLostError unless the pool is ours to drive now."""
        known = self._pools.get(pool)
        if known is None or known.handle is None:
            raise LeaseLostError(f"the lease of pool {pool} is not held; work stopped")
        known.handle.check()

    def give_back(self, pool: str) -> None:
        """Done with the pool, or no longer waiting for its turn."""
        known = self._pools.pop(pool, None)
        if known is not None:
            known.task.cancel()

    def keep_only(self, pools: set[str]) -> None:
        """Give back the leases of all other pools."""
        for name in [name for name in self._pools if name not in pools]:
            self.give_back(name)

    async def drop_all(self) -> None:
        tasks = [entry.task for entry in self._pools.values()]
        self._pools.clear()
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
