"""Clocks for tests. With ``@pytest.mark.looptime`` the loop's time jumps, and LoopClock's wall time jumps along."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime, timedelta
from typing import Final

START: Final = datetime(2026, 1, 1, tzinfo=UTC)


class LoopClock:
    """Implements ``sparewheel.clock.Clock`` on the running loop's time."""

    def now(self) -> datetime:
        return START + timedelta(seconds=self.monotonic_seconds())

    def monotonic_seconds(self) -> float:
        return asyncio.get_running_loop().time()

    async def sleep(self, seconds: float) -> None:
        await asyncio.sleep(max(0.0, seconds))


class StillClock:
    """Time stands until it is moved."""

    def __init__(self) -> None:
        self.seconds = 0.0

    def now(self) -> datetime:
        return START + timedelta(seconds=self.seconds)

    def monotonic_seconds(self) -> float:
        return self.seconds

    async def sleep(self, seconds: float) -> None:
        self.seconds += seconds
