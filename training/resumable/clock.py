"""Time as an argument, so that waiting can be tested without waiting."""

from __future__ import annotations

import time
from typing import Protocol


class Clock(Protocol):
    """Seconds on a clock that never goes back, and a way to let some pass."""

    def now(self) -> float: ...

    def wait(self, seconds: float) -> None: ...


class MonotonicClock:
    """The machine's own clock."""

    def now(self) -> float:
        return time.monotonic()

    def wait(self, seconds: float) -> None:
        time.sleep(max(0.0, seconds))
