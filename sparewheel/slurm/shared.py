"""Many askers, one list: whoever asks while a list is on its way shares the next one.

slurmctld builds the list of its nodes or jobs anew for each request, some 30 MB at 10,000 nodes. Nobody gets an answer
to a request that was begun before the question: a list older than our own write would be read as the write's failure.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Final, Generic, TypeVar

T = TypeVar("T")
LONGEST_REST_SECONDS: Final = 5.0
"""One list that took its whole time-out must not keep everybody from the next for minutes: jobs wait for it."""


@dataclass(slots=True)
class Shared(Generic[T]):
    """``ask`` is called once for all who wait; what it raises goes to each of them. One request runs at a time.

    Between two requests lies ``rest`` times what the first took: a list of 10,000 nodes takes 0.2 s of our core, and of
    slurmctld's lock, and is not asked for without end. Never longer than ``longest_rest_seconds``, and never shorter
    than ``least_rest_seconds``.
    """

    ask: Callable[[], Awaitable[T]]
    rest: float = 3.0
    longest_rest_seconds: float = LONGEST_REST_SECONDS
    least_rest_seconds: float = 0.0
    _may_ask_at: float = 0.0
    _running: asyncio.Task[T] | None = None
    _next: asyncio.Task[T] | None = None

    async def get(self) -> T:
        """The answer to a request that begins after this call."""
        if self._next is None:
            self._next = asyncio.create_task(self._ask_after(self._running), name="shared list")
            self._next.add_done_callback(_looked_at)
        return await asyncio.shield(self._next)

    async def _ask_after(self, running: asyncio.Task[T] | None) -> T:
        if running is not None:
            await asyncio.wait({running})
        loop = asyncio.get_running_loop()
        if loop.time() < self._may_ask_at:
            await asyncio.sleep(self._may_ask_at - loop.time())
        self._running, self._next = self._next, None
        started = loop.time()
        try:
            return await self.ask()
        finally:
            ended = loop.time()
            rest = min(self.longest_rest_seconds, self.rest * (ended - started))
            self._may_ask_at = ended + max(self.least_rest_seconds, rest)
            self._running = None  # its answer is held by those who asked alone


def _looked_at(task: asyncio.Task[T]) -> None:
    """An error that nobody waits for any more is no news."""
    if not task.cancelled():
        task.exception()
