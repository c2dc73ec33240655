"""Who gets the messages of a played data centre."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field

from sparewheel.notify.port import Event, NotifyError


@dataclass
class Receiver:
    """Implements ``sparewheel.notify.port.Notifier``; keeps one message per key, as a receiver would."""

    failing: int = 0
    refused: set[str] = field(default_factory=set[str])
    """Keys that are never accepted."""
    hung: set[str] = field(default_factory=set[str])
    """Routes that never answer."""
    events: dict[str, Event] = field(default_factory=dict[str, Event])
    by_route: dict[str, list[Event]] = field(default_factory=dict[str, list[Event]])
    tries: list[str] = field(default_factory=list[str])
    error: NotifyError | None = None
    """What every try ends with."""

    async def send(self, route_name: str, event: Event, key: str) -> None:
        await asyncio.sleep(0)
        self.tries.append(key)
        if route_name in self.hung:
            await asyncio.Event().wait()
        if self.failing or key in self.refused:
            self.failing = max(0, self.failing - 1)
            raise NotifyError(f"route {route_name}: the receiver answered HTTP 503")
        if self.error is not None:
            raise self.error
        if key not in self.events:
            self.events[key] = event
            self.by_route.setdefault(route_name, []).append(event)

    def of(self, kind: str) -> list[Event]:
        return [event for event in self.events.values() if event["event"] == kind]
