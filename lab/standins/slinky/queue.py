"""Which objects must be looked at, and when: one look at a time per object, failures later and later."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from typing import Any, Final, NamedTuple

from lab.standins.slinky.pace import ERROR_BACKOFF_FIRST_SECONDS, ERROR_BACKOFF_MOST_SECONDS
from lab.standins.slinky.slurm_rest import SlurmError
from sparewheel.clock import Clock

log: Final = logging.getLogger(__name__)


class Key(NamedTuple):
    """An object to look at."""

    kind: str
    namespace: str
    name: str

    def __str__(self) -> str:
        return f"{self.kind} {self.namespace}/{self.name}"


Reconcile = Callable[[Key], Awaitable[float | None]]
"""Looks at one object; returns in how many seconds to look again, None for only when something changes."""


class Queue:
    """Due looks. ``add`` is cheap and may be called from anywhere in the loop."""

    def __init__(self, reconcile: Reconcile, clock: Clock) -> None:
        self._reconcile = reconcile
        self._clock = clock
        self._due: dict[Key, float] = {}
        self._busy: set[Key] = set()
        self._failures: dict[Key, int] = {}
        self._wake = asyncio.Event()
        self._tasks: set[asyncio.Task[None]] = set()

    def add(self, key: Key, after_seconds: float = 0.0) -> None:
        """Look at ``key`` no later than ``after_seconds`` from now."""
        due = self._clock.monotonic_seconds() + after_seconds
        if due < self._due.get(key, float("inf")):
            self._due[key] = due
            self._wake.set()

    async def run(self) -> None:
        """Look at what is due, for ever. Different objects side by side, one object never twice at once."""
        while True:
            now = self._clock.monotonic_seconds()
            ready = [key for key, due in self._due.items() if due <= now and key not in self._busy]
            for key in ready:
                del self._due[key]
                self._busy.add(key)
                task = asyncio.create_task(self._look(key))
                self._tasks.add(task)
                task.add_done_callback(self._tasks.discard)
            self._wake.clear()
            later = [due for key, due in self._due.items() if key not in self._busy]
            wait = min(later) - self._clock.monotonic_seconds() if later else None
            await self._sleep_or_wake(wait)

    async def _sleep_or_wake(self, seconds: float | None) -> None:
        waits: set[asyncio.Task[Any]] = {asyncio.create_task(self._wake.wait())}
        if seconds is not None:
            waits.add(asyncio.create_task(self._clock.sleep(seconds)))
        try:
            await asyncio.wait(waits, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for one in waits:
                one.cancel()

    async def _look(self, key: Key) -> None:
        again: float | None
        try:
            again = await self._reconcile(key)
            self._failures.pop(key, None)
        except Exception as error:  # any failure of one object must not stop the others
            count = self._failures.get(key, 0)
            self._failures[key] = count + 1
            again = min(ERROR_BACKOFF_FIRST_SECONDS * 2.0**count, ERROR_BACKOFF_MOST_SECONDS)
            expected = count > 0 or isinstance(error, ExpectedError | SlurmError)
            log.warning("%s: %s; again in %.1f s", key, error, again, exc_info=None if expected else error)
        self._busy.discard(key)
        if again is not None:
            self.add(key, again)
        self._wake.set()


class ExpectedError(Exception):
    """Something isn't there yet; the look is repeated. Says which object waits for what."""
