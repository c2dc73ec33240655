"""PagerDuty's Events API v2: an incident is one alert, triggered, acknowledged and resolved by one key. Pure."""

from __future__ import annotations

from typing import Any

from sparewheel.api.remediation import Outcome
from sparewheel.notify.port import Event
from sparewheel.remediation.decide.events import (
    EVENT_BREAKER,
    EVENT_BREAKER_CLOSED,
    EVENT_CLOSED,
    EVENT_JOB,
    EVENT_TEST,
)

MAX_SUMMARY_CHARACTERS = 1024
"""PagerDuty cuts a longer summary (Events API v2, "Send an alert event")."""
MAX_KEY_CHARACTERS = 255


def action(event: Event) -> str:
    """``trigger``, ``acknowledge`` (the platform deals with it, and nobody has to) or ``resolve``."""
    if event["event"] == EVENT_CLOSED:
        failed = any(one["outcome"] == Outcome.FAILED.value for one in event["incidents"])
        return "trigger" if failed else "resolve"
    if event["event"] == EVENT_BREAKER_CLOSED:
        return "resolve"
    return "acknowledge" if event["event"] == EVENT_JOB and not event["actionNeeded"] else "trigger"


def alert_key(event: Event) -> str:
    """The breaker is a trouble of its own: the healing of one node must not resolve it."""
    name = str(event["alert"])
    about_breaker = event["event"] in {EVENT_BREAKER, EVENT_BREAKER_CLOSED}
    return (f"{name}/breaker" if about_breaker else name)[:MAX_KEY_CHARACTERS]


def bodies(event: Event, routing_key: str) -> list[dict[str, Any]]:
    """The requests' bodies, in their order: one, but a test is resolved at once. They hold the routing key."""
    one = _body(event, routing_key)
    return [one, {**one, "event_action": "resolve"}] if event["event"] == EVENT_TEST else [one]


def _body(event: Event, routing_key: str) -> dict[str, Any]:
    kept = ("text", "count", "incidents", "moreIncidents", "jobs", "note", "stage", "outcome", "actionNeeded")
    found = {"routing_key": routing_key, "event_action": action(event), "dedup_key": alert_key(event)}
    return {
        **found,
        "client": "Sparewheel",
        "payload": {
            "summary": str(event["title"])[:MAX_SUMMARY_CHARACTERS],
            "source": str(event["node"]) or "sparewheel",
            "severity": str(event["severity"]),
            "timestamp": event["time"],
            "component": str(event["fault"]["device"]) if event.get("fault") else "",
            "group": str(event["pool"]),
            "class": str(event["fault"]["code"]) if event.get("fault") else str(event["event"]),
            "custom_details": {name: event[name] for name in kept if name in event},
        },
    }
