"""The one way to know the time or to wait. Passed in wherever time matters, so tests turn it by hand."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime
from typing import Protocol


class Clock(Protocol):
    """Wall time for records, monotonic time for durations, and waiting."""

    def now(self) -> datetime:
        """Wall time, timezone-aware UTC, microseconds."""
        ...

    def monotonic_seconds(self) -> float:
        """Seconds since an arbitrary start; never goes back."""
        ...

    async def sleep(self, seconds: float) -> None:
        """Wait for ``seconds``; less than or equal to 0 only yields."""
        ...


class SystemClock:
    """The machine's own clock."""

    def now(self) -> datetime:
        return datetime.now(UTC)

    def monotonic_seconds(self) -> float:
        return asyncio.get_running_loop().time()

    async def sleep(self, seconds: float) -> None:
        await asyncio.sleep(max(0.0, seconds))
