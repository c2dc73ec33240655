"""How many requests a client sends: so many a second, the urgent ones first.

A client without a limit of its own is throttled by the API server's priority and fairness, in an order that nobody
chose: renewing a lease would wait behind two hundred cordons.
"""

from __future__ import annotations

import asyncio
import heapq
from contextvars import ContextVar
from dataclasses import dataclass, field
from enum import IntEnum
from itertools import count
from typing import Final

from sparewheel.clock import Clock


class Urgency(IntEnum):
    """Smallest first."""

    LEASE = 0
    FENCE = 1
    NORMAL = 2
    BACKGROUND = 3


URGENCY: Final[ContextVar[Urgency]] = ContextVar("urgency", default=Urgency.NORMAL)
"""Of the requests that the running task sends; a task started from it begins with the same."""


SHORTEST_SECONDS: Final = 0.001
"""A shorter wait may round to none, for ever."""


@dataclass(slots=True)
class Pace:
    """A bucket of ``burst`` requests that fills at ``per_second``; whoever finds it empty waits, the urgent first.

    A lease's requests don't wait at all: they are two a second at most, and late they cost the lead.
    """

    clock: Clock
    per_second: float
    burst: float
    sent: int = 0
    _tokens: float = field(init=False)
    _filled_at: float | None = None
    _waiting: list[tuple[int, int, asyncio.Future[None]]] = field(
        default_factory=list[tuple[int, int, asyncio.Future[None]]]
    )
    _order: count[int] = field(default_factory=count)
    _filler: asyncio.Task[None] | None = None

    def __post_init__(self) -> None:
        if self.per_second <= 0 or self.burst < 1:
            msg = f"a pace of {self.per_second:g} requests a second, {self.burst:g} at once, sends nothing"
            raise ValueError(msg)
        self._tokens = self.burst

    async def turn(self) -> None:
        """Return when the next request may be sent."""
        urgency = URGENCY.get()
        self._fill()
        if urgency is Urgency.LEASE or (self._tokens >= 1 and not self._waiting):
            self._tokens -= 1
            self.sent += 1
            return
        ready: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        heapq.heappush(self._waiting, (urgency, next(self._order), ready))
        if self._filler is None or self._filler.done():
            self._filler = asyncio.create_task(self._serve(), name="kube pace")
        await ready

    def _fill(self) -> None:
        now = self.clock.monotonic_seconds()
        if self._filled_at is not None:
            self._tokens = min(self.burst, self._tokens + (now - self._filled_at) * self.per_second)
        self._filled_at = now

    async def _serve(self) -> None:
        """Let the waiting go one by one; ends when nobody waits."""
        while self._waiting:
            self._fill()
            if self._tokens < 1:
                await self.clock.sleep(max(SHORTEST_SECONDS, (1 - self._tokens) / self.per_second))
                continue
            _, _, ready = heapq.heappop(self._waiting)
            if not ready.done():  # whoever was cancelled while waiting sends nothing
                self._tokens -= 1
                self.sent += 1
                ready.set_result(None)
