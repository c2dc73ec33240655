"""Is a node's report still being renewed? Judged by when we saw it change, on our monotonic clock: never by the time in
it, which another machine's clock wrote."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import datetime
from typing import Final

from sparewheel.api.node_health import NodeHealthStatus
from sparewheel.silence import SilenceTracker

FRESH_BEATS: Final = 3
"""A report that did not change for longer than this many heartbeats is no report."""


@dataclass(frozen=True, slots=True)
class Watched:
    """What a watch saw last of a node's report."""

    heartbeat: datetime | None
    changed_at: float
    """On our monotonic clock."""


def _never(_node: str) -> Watched | None:
    return None


@dataclass(slots=True)
class Reports:
    """Kept for as long as the process looks at a pool: a report that was never seen to change may be a dead agent's."""

    watched: Callable[[str], Watched | None] = _never
    """None where no watch saw the node's report change."""
    _looks: SilenceTracker = field(default_factory=SilenceTracker)

    def look(self, node: str, status: NodeHealthStatus | None, now: float) -> None:
        """Remember what was read; None: there was no report. Times are monotonic seconds."""
        seen = self.watched(node)
        if status is not None and seen is not None and self._looks.silent_seconds(node, now) is None:
            self._looks.hear(node, (seen.heartbeat, status.boot_id), seen.changed_at)  # what it was before this look
        self._looks.hear(node, None if status is None else (status.heartbeat_time, status.boot_id), now)

    def fresh(self, node: str, status: NodeHealthStatus, now: float) -> bool:
        """As looked at: was it renewed within its last heartbeats?

        What a watch saw is the more exact, unless it is stuck: a report that it did not deliver was read by the look.
        """
        seen, looked = self.watched(node), self._looks.last_heard(node)
        at = looked if seen is None else seen.changed_at
        if seen is not None and looked is not None and seen.heartbeat != status.heartbeat_time:
            at = max(seen.changed_at, looked)
        return at is not None and now - at <= FRESH_BEATS * status.heartbeat_interval_seconds
