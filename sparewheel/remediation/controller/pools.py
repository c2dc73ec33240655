"""Brings pools to their size when nothing of them is being healed: after a resize, a healing, a host got lost."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from contextlib import ExitStack
from dataclasses import dataclass, field
from typing import Protocol

from sparewheel.remediation.controller.pool_leases import PoolLeases
from sparewheel.remediation.controller.state import State
from sparewheel.remediation.decide.treated import replaces

log = logging.getLogger("sparewheel.remediation")

SETTLED_SECONDS = 60.0
TURNS = 2
"""Pools that are read side by side: each takes what its hosts and Nodes take, and the event loop has others' turns."""
REST = 10.0
"""Settled pools in turn take a tenth of the time at most: large ones are looked at less often; what changes wakes them.
"""
LONGEST_REST_SECONDS = 600.0
"""What nothing wakes a pool for, a spare that fell ill or a machine that is new, is seen within it."""
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
    turns: asyncio.Semaphore = field(default_factory=lambda: asyncio.Semaphore(TURNS))
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
        try:
            result, took = await self._reconciled(name)
        finally:
            if not self._healing(name):  # an incident that began meanwhile drives under the same lease
                self.leases.give_back(name)
        if not result.settled:
            log.info("event=pool pool=%s message=%s", name, result.message)
        rest = min(LONGEST_REST_SECONDS, max(SETTLED_SECONDS, REST * took * len(self.state.pools)))
        return rest if result.settled else UNSETTLED_SECONDS

    async def _reconciled(self, name: str) -> tuple[PoolState, float]:
        """What it says, and the seconds it took. Whoever begins to write has read: it is another pool's turn then."""
        with ExitStack() as turn:
            await self.turns.acquire()
            turn.callback(self.turns.release)

            def may_write() -> None:
                turn.close()
                self._may_write(name)

            began = self.state.clock.monotonic_seconds()
            result = await self.reconcile(name, may_write)
            return result, self.state.clock.monotonic_seconds() - began

    def _healing(self, pool: str) -> bool:
        return any(replaces(one.record) for one in self.state.taken.values() if one.record.spec.pool == pool)

    def _may_write(self, pool: str) -> None:
        self.check()
        self.leases.check(pool)
