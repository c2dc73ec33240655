"""Who is silent, judged by our own monotonic clock: when a report last changed, never by the time written in it."""

from __future__ import annotations

from collections.abc import KeysView
from dataclasses import dataclass


@dataclass(slots=True)
class _Heard:
    value: object
    at: float
    changes: int = 0


class SilenceTracker:
    """Remembers when each node's report last changed. Times are monotonic seconds.

    Silence counts only while the API server is known to answer: after an outage every report looks old at once.
    """

    def __init__(self) -> None:
        self._heard: dict[str, _Heard] = {}
        self._answering_since = float("-inf")

    def hear(self, node: str, value: object, now: float) -> None:
        known = self._heard.get(node)
        if known is None:
            self._heard[node] = _Heard(value, now)
        elif known.value != value:
            known.value, known.at, known.changes = value, now, known.changes + 1

    def forget(self, node: str) -> None:
        self._heard.pop(node, None)

    def api_failed(self, now: float) -> None:
        """The API server did not answer: silence up to now proves nothing."""
        self._answering_since = now

    def silent_seconds(self, node: str, now: float) -> float | None:
        """None: never heard of."""
        known = self._heard.get(node)
        return None if known is None else max(0.0, now - max(known.at, self._answering_since))

    def silent_longer(self, seconds: float, now: float) -> list[str]:
        """All that were heard of, but for longer than this no more. Ten thousand are gone through in a millisecond."""
        before = now - seconds
        if self._answering_since >= before:
            return []
        return [node for node, heard in self._heard.items() if heard.at < before]

    def names(self) -> KeysView[str]:
        """All that were ever heard of."""
        return self._heard.keys()

    def last_heard(self, node: str) -> float | None:
        """When the report last *changed*; None before the first change: an old report may lie there for ever."""
        known = self._heard.get(node)
        return known.at if known is not None and known.changes else None
