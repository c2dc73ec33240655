"""Keys with due times, on the clock: the earliest due is handled first, each key by one task at a time."""

from __future__ import annotations

import asyncio
import heapq
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from itertools import count
from typing import NamedTuple

from sparewheel.clock import Clock
from sparewheel.tasks import ended

ROUNDING_SECONDS = 0.001
"""A sleep may end this much early; what is due then is due."""
SHORTEST_SECONDS = 0.01
"""A pause is never shorter: one that ends within the rounding, or is too short for the clock to show, would be no pause
at all, and the look that asked for it, which waits for the time to pass, would be taken again for ever."""
AT_ONCE = 50
"""Handlers started in one turn of the event loop: a leader that looks at 10,000 nodes has its lease to renew too."""


class Key(NamedTuple):
    """What to look at."""

    kind: str
    name: str


Handler = Callable[[Key], Awaitable[float | None]]
"""Looks at the key; seconds until the next look, None when none is due."""


@dataclass(slots=True)
class DueQueue:
    clock: Clock
    _due: dict[Key, float] = field(default_factory=dict[Key, float])
    _order: list[tuple[float, int, Key]] = field(default_factory=list[tuple[float, int, Key]])
    """A heap of due times; an entry that ``_due`` no longer has, or has otherwise, is void."""
    _serial: count[int] = field(default_factory=count)
    _running: dict[Key, asyncio.Task[None]] = field(default_factory=dict[Key, asyncio.Task[None]])
    _poked: asyncio.Event = field(default_factory=asyncio.Event)

    def add(self, key: Key, after_seconds: float = 0.0) -> None:
        """Look at ``key`` after this long, or earlier if that is due already; 0 or less: at once."""
        pause = max(after_seconds, SHORTEST_SECONDS) if after_seconds > 0 else 0.0
        due = self.clock.monotonic_seconds() + pause
        known = self._due.get(key)
        if known is None or due < known:
            self._due[key] = due
            if key not in self._running:
                self._put(key, due)

    def _put(self, key: Key, due: float) -> None:
        heapq.heappush(self._order, (due, next(self._serial), key))
        self._poked.set()

    def drop(self, key: Key) -> None:
        self._due.pop(key, None)

    def clear(self) -> None:
        self._due.clear()
        self._order.clear()

    @property
    def keys(self) -> set[Key]:
        """Keys that are due some time or being handled."""
        return set(self._due) | set(self._running)

    @property
    def running(self) -> set[Key]:
        return set(self._running)

    async def run(self, handler: Handler) -> None:
        """Handle keys until cancelled; then the handlers in flight are cancelled too and waited for."""
        try:
            while True:
                self._poked.clear()
                pause = self._start_due(handler)
                await self._wait(pause)
        finally:
            await ended(*self._running.values())
            self._running.clear()

    def _start_due(self, handler: Handler) -> float | None:
        """Start what is due, as much as fits into a turn; seconds until the next, None when nothing is."""
        now, started = self.clock.monotonic_seconds(), 0
        while self._order:
            if started >= AT_ONCE:
                return 0.0
            due, _, key = self._order[0]
            if self._due.get(key) != due or key in self._running:
                heapq.heappop(self._order)  # void; a running key is put in again when its handler is through
                continue
            if due > now + ROUNDING_SECONDS:
                return due - now
            heapq.heappop(self._order)
            del self._due[key]
            self._running[key] = asyncio.create_task(self._handle(key, handler), name=f"{key.kind}/{key.name}")
            started += 1
        return None

    async def _handle(self, key: Key, handler: Handler) -> None:
        pause: float | None = None
        try:
            pause = await handler(key)
        finally:
            self._running.pop(key, None)
            if key in self._due:  # asked for meanwhile
                self._put(key, self._due[key])
            if pause is not None:
                self.add(key, pause)

    async def _wait(self, pause: float | None) -> None:
        if pause == 0:
            return await asyncio.sleep(0)
        poked = asyncio.create_task(self._poked.wait())
        slept = asyncio.create_task(self.clock.sleep(pause)) if pause is not None else None
        waits: list[asyncio.Task[object]] = [poked, *([slept] if slept else [])]  # type: ignore[list-item]
        try:
            await asyncio.wait(waits, return_when=asyncio.FIRST_COMPLETED)
        finally:
            await ended(*waits)
