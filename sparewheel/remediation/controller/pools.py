"""Brings pools to their size when nothing of them is being healed: after a resize, a healing, a host got lost."""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import Protocol

from sparewheel.remediation.controller.pool_leases import PoolLeases
from sparewheel.remediation.controller.state import State
from sparewheel.remediation.decide.treated import replaces

log = logging.getLogger("sparewheel.remediation")

SETTLED_SECONDS = 60.0
REST = 10.0
"""Settled pools in turn take a tenth of the time at most: large ones are looked at less often; what changes wakes them.
"""
UNSETTLED_SECONDS = 2.0
BUSY_SECONDS = 10.0


class PoolState(Protocol):
    """What a reconcile of capacity says."""

    @property
    def settled(self) -> bool: ...

    @property
    def message(self) -> str: ...


Reconcile = Callable[[str, Callable[[], None]], Awaitable[PoolState]]
"""One step for a pool; the callable raises when we may no longer write."""


@dataclass(slots=True)
class Pools:
    state: State
    leases: PoolLeases
    reconcile: Reconcile
    check: Callable[[], None]
    """Raises when this controller no longer leads."""
    waits: set[str] = field(default_factory=set[str])
    """Pools whose lease is another's. A dead holder's is taken over only by one who goes on watching it."""

    async def look(self, name: str) -> float | None:
        """One look at a pool; seconds until the next, None when it is gone."""
        pool = self.state.pools.get(name)
        self.waits.discard(name)
        if pool is None:
            return None
        if pool.spec.paused or pool.spec.dry_run or self._healing(name):
            return BUSY_SECONDS
        held_up = await self.leases.drive(name)
        if held_up:
            self.waits.add(name)
            return BUSY_SECONDS
        began = self.state.clock.monotonic_seconds()
        try:
            result = await self.reconcile(name, lambda: self._may_write(name))
        finally:
            if not self._healing(name):  # an incident that began meanwhile drives under the same lease
                self.leases.give_back(name)
        if not result.settled:
            log.info("event=pool pool=%s message=%s", name, result.message)
        took = self.state.clock.monotonic_seconds() - began
        rest = max(SETTLED_SECONDS, REST * took * len(self.state.pools))
        return rest if result.settled else UNSETTLED_SECONDS

    def _healing(self, pool: str) -> bool:
        return any(replaces(one.record) for one in self.state.taken.values() if one.record.spec.pool == pool)

    def _may_write(self, pool: str) -> None:
        self.check()
        self.leases.check(pool)
