"""An event loop whose time jumps to the next timer: hours pass in seconds, the same way every time."""

from __future__ import annotations

import asyncio
import selectors
from collections.abc import Coroutine
from typing import Any, TypeVar

T = TypeVar("T")


class StandstillError(Exception):
    """Every task waits for something that nobody will do."""


class _Selector(selectors.SelectSelector):
    """Nothing outside is waited for, so waiting is letting the time pass."""

    def __init__(self) -> None:
        super().__init__()
        self.now = 0.0

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        if timeout is None:
            raise StandstillError("no timer is set and nothing is ready to run")
        self.now += max(0.0, timeout)
        return []


class TimeLoop(asyncio.SelectorEventLoop):
    def __init__(self) -> None:
        self._jumping = _Selector()
        super().__init__(self._jumping)

    def time(self) -> float:
        return self._jumping.now


def run(work: Coroutine[Any, Any, T]) -> T:
    """As ``asyncio.run``, on a loop of its own time."""
    with asyncio.Runner(loop_factory=TimeLoop) as runner:
        return runner.run(work)
