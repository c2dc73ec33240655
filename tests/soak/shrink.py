"""Makes a schedule that fails smaller: events are dropped while it still fails."""

from __future__ import annotations

from collections.abc import Callable

from tests.soak.schedule import Schedule

Fails = Callable[[Schedule], bool]


def shrink(schedule: Schedule, fails: Fails) -> Schedule:
    """Drop halves, then quarters, at last single events, until no single one can go any more."""
    size = max(1, len(schedule.events) // 2)
    while True:
        smaller = _drop(schedule, size, fails)
        if smaller is not None:
            schedule = smaller
        elif size > 1:
            size //= 2
        else:
            return schedule
        size = min(size, max(1, len(schedule.events) // 2))


def _drop(schedule: Schedule, size: int, fails: Fails) -> Schedule | None:
    for start in range(0, len(schedule.events), size):
        smaller = schedule.without(set(range(start, start + size)))
        if len(smaller.events) < len(schedule.events) and fails(smaller):
            return smaller
    return None
