"""Is a node's report still being renewed? Judged by when we saw it change, on our monotonic clock: never by the time in
it, which another machine's clock wrote."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final

from sparewheel.api.node_health import NodeHealthStatus
from sparewheel.remediation.decide.silence import SilenceTracker

FRESH_BEATS: Final = 3
"""A report that did not change for longer than this many heartbeats is no report."""


def _never(_node: str) -> float | None:
    return None


@dataclass(slots=True)
class Reports:
    """Kept for as long as the process looks at a pool: a report that was never seen to change may be a dead agent's."""

    watched: Callable[[str], float | None] = _never
    """When a watch last saw the node's report change, on the same clock; None where it did not."""
    _looks: SilenceTracker = field(default_factory=SilenceTracker)

    def look(self, node: str, status: NodeHealthStatus | None, now: float) -> None:
        """Remember what was read; None: there was no report. Times are monotonic seconds."""
        self._looks.hear(node, None if status is None else (status.heartbeat_time, status.boot_id), now)

    def fresh(self, node: str, status: NodeHealthStatus, now: float) -> bool:
        """As looked at: was it renewed within its last heartbeats? What a watch saw is the more exact."""
        seen = self.watched(node)
        at = self._looks.last_heard(node) if seen is None else seen
        return at is not None and now - at <= FRESH_BEATS * status.heartbeat_interval_seconds
