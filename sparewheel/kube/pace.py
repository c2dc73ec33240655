"""How many requests a client sends: so many a second, so many in flight at once, the urgent ones first.

A client without a limit of its own is throttled by the API server's priority and fairness, in an order that nobody
chose: renewing a lease would wait behind two hundred cordons. A server that answers slowly is not given more and more
to do at the same time.
"""

from __future__ import annotations

import asyncio
import heapq
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
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


CALLS_PER_SECOND: Final = 50.0
CALLS_IN_FLIGHT: Final = 32
"""Sent and not answered yet; each has a connection of its own (HTTP/1.1)."""
FENCES_SHARE: Final = 0.5
"""Of the bucket; what is less urgent leaves so much in it."""
SHORTEST_SECONDS: Final = 0.001
"""A shorter wait may round to none, for ever."""


@dataclass(slots=True)
class Pace:
    """A bucket of ``burst`` requests that fills at ``per_second``, and ``in_flight`` places for those that wait for
    their answer; whoever finds the one empty or the other full waits, the urgent first.

    A lease's requests don't wait at all and take no place: they are few, and late they cost the lead.
    Half of the bucket is a fence's: what others send while it waits for Slurm would be missing at its next request.
    """

    clock: Clock
    per_second: float = CALLS_PER_SECOND
    burst: float = CALLS_PER_SECOND
    in_flight: int = CALLS_IN_FLIGHT
    sent: int = 0
    _tokens: float = field(init=False)
    _filled_at: float | None = None
    _taken: int = 0
    """Places."""
    _freed: asyncio.Event = field(default_factory=asyncio.Event)
    _waiting: list[tuple[int, int, asyncio.Future[None]]] = field(
        default_factory=list[tuple[int, int, asyncio.Future[None]]]
    )
    _order: count[int] = field(default_factory=count)
    _filler: asyncio.Task[None] | None = None

    def __post_init__(self) -> None:
        if self.per_second <= 0 or self.burst < 1 or self.in_flight < 1:
            msg = (
                f"a pace of {self.per_second:g} requests a second, {self.burst:g} at once, "
                f"{self.in_flight} in flight, sends nothing"
            )
            raise ValueError(msg)
        self._tokens = self.burst

    @asynccontextmanager
    async def turn(self) -> AsyncGenerator[None, None]:
        """Enter when the request may be sent, leave when it was answered."""
        if URGENCY.get() is Urgency.LEASE:
            self._fill()
            self._tokens -= 1
            self.sent += 1
            yield
            return
        await self._enter(URGENCY.get())
        try:
            yield
        finally:
            self._leave()

    async def _enter(self, urgency: Urgency) -> None:
        self._fill()
        first = not self._waiting or urgency < self._waiting[0][0]
        if first and self._tokens >= self._least(urgency) and self._taken < self.in_flight:
            self._go()
            return
        ready: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        heapq.heappush(self._waiting, (urgency, next(self._order), ready))
        if self._filler is None or self._filler.done():
            self._filler = asyncio.create_task(self._serve(), name="kube pace")
        try:
            await ready
        except asyncio.CancelledError:
            if not ready.cancelled():  # it was its turn already
                self._leave()
            raise

    def _least(self, urgency: int) -> float:
        """Tokens that have to be there for a request to be sent."""
        return 1.0 if urgency <= Urgency.FENCE else max(1.0, FENCES_SHARE * self.burst)

    def _go(self) -> None:
        self._tokens -= 1
        self._taken += 1
        self.sent += 1

    def _leave(self) -> None:
        self._taken -= 1
        self._freed.set()

    def _fill(self) -> None:
        now = self.clock.monotonic_seconds()
        if self._filled_at is not None:
            self._tokens = min(self.burst, self._tokens + (now - self._filled_at) * self.per_second)
        self._filled_at = now

    async def _serve(self) -> None:
        """Let the waiting go one by one; ends when nobody waits."""
        while self._waiting:
            self._fill()
            lacking = self._least(self._waiting[0][0]) - self._tokens
            if lacking > 0:  # looked at again for each token: somebody more urgent may be the first by then
                await self.clock.sleep(max(SHORTEST_SECONDS, min(1.0, lacking) / self.per_second))
                continue
            if self._taken >= self.in_flight:
                self._freed.clear()
                await self._freed.wait()
                continue
            _, _, ready = heapq.heappop(self._waiting)
            if not ready.done():  # whoever was cancelled while waiting sends nothing
                self._go()
                ready.set_result(None)
