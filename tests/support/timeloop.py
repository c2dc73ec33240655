"""An event loop whose time jumps to the next timer: hours pass in seconds, the same way every time."""

from __future__ import annotations

import asyncio
import heapq
from collections import deque
from collections.abc import Callable, Coroutine
from contextvars import Context, copy_context
from typing import Any, TypeVar

T = TypeVar("T")
MANY_TIMERS = 100
"""As in asyncio: of more than these, those that were cancelled are dropped once they are more than half."""
RESOLUTION_SECONDS = 1e-9


class StandstillError(Exception):
    """Every task waits for something that nobody will do."""


class _Soon(asyncio.Handle):
    """A handle that knows only what is needed to call it: a soak makes twenty thousand of them for a schedule."""

    __slots__ = ()

    def __init__(
        self, callback: Callable[..., object], args: tuple[Any, ...], loop: TimeLoop, context: Context | None
    ) -> None:
        self._context = copy_context() if context is None else context
        self._loop = loop
        self._callback = callback
        self._args = args
        self._cancelled = False
        self._repr = self._source_traceback = None


class TimeLoop(asyncio.SelectorEventLoop):
    """Waits for nothing outside, so waiting is letting the time pass. Order and times are as asyncio's own."""

    _ready: deque[asyncio.Handle]
    _scheduled: list[asyncio.TimerHandle]
    _timer_cancelled_count: int
    _stopping: bool

    def __init__(self) -> None:
        self._now = 0.0
        super().__init__()

    def time(self) -> float:
        return self._now

    def call_soon(self, callback: Callable[..., object], *args: Any, context: Context | None = None) -> asyncio.Handle:
        handle = _Soon(callback, args, self, context)
        self._ready.append(handle)
        return handle

    def _run_once(self) -> None:
        self._forget_cancelled()
        ready, timers = self._ready, self._scheduled
        if not ready and not self._stopping:
            if not timers:
                raise StandstillError("no timer is set and nothing is ready to run")
            self._now += max(0.0, timers[0].when() - self._now)
        end = self._now + RESOLUTION_SECONDS
        while timers and timers[0]._when < end:
            timer = heapq.heappop(timers)
            timer._scheduled = False
            ready.append(timer)
        for _ in range(len(ready)):  # those that they add are for the next turn
            handle = ready.popleft()
            if not handle._cancelled:
                try:
                    handle._context.run(handle._callback, *handle._args)
                except (SystemExit, KeyboardInterrupt):
                    raise
                except BaseException as error:  # noqa: BLE001 - as asyncio does it
                    self.call_exception_handler({"message": f"Exception in callback {handle}", "exception": error})

    def _forget_cancelled(self) -> None:
        timers = self._scheduled
        if len(timers) > MANY_TIMERS and 2 * self._timer_cancelled_count > len(timers):
            for timer in timers:
                timer._scheduled = not timer._cancelled
            self._scheduled = [timer for timer in timers if not timer._cancelled]
            heapq.heapify(self._scheduled)
            self._timer_cancelled_count = 0
            return
        while timers and timers[0]._cancelled:
            self._timer_cancelled_count -= 1
            heapq.heappop(timers)._scheduled = False


def run(work: Coroutine[Any, Any, T]) -> T:
    """As ``asyncio.run``, on a loop of its own time."""
    with asyncio.Runner(loop_factory=TimeLoop) as runner:
        return runner.run(work)
