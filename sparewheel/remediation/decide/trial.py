"""A request for test messages, and the message that is sent. Pure."""

from __future__ import annotations

import json
from dataclasses import dataclass
from datetime import datetime
from typing import Any, cast

from sparewheel.api.base import format_time
from sparewheel.api.routes import Audience, Route
from sparewheel.remediation.decide.events import EVENT_TEST


def request(identity: str, route: str, user: str, asked_by: str) -> str:
    """The annotation's value. ``route`` empty: all; ``user``: whom the routes for owners tell; empty: nobody."""
    return json.dumps({"id": identity, "route": route, "user": user, "askedBy": asked_by})


@dataclass(frozen=True, slots=True)
class Asked:
    identity: str
    route: str
    user: str
    asked_by: str


def read(annotation: str) -> Asked | None:
    """None when it is no request of ours."""
    try:
        body = json.loads(annotation)
    except ValueError:
        return None
    if not isinstance(body, dict):
        return None
    found = cast("dict[str, Any]", body)
    identity, route, user, asked_by = (str(found.get(name, "")) for name in ("id", "route", "user", "askedBy"))
    return Asked(identity, route, user, asked_by) if identity else None


def event(asked: Asked, route: Route, now: datetime) -> dict[str, Any]:
    """The message. It says that it is a test, and who asked for it."""
    owner = asked.user if route.audience is Audience.OWNER else ""
    by = asked.asked_by or "somebody"
    return {
        "event": EVENT_TEST,
        "severity": "info",
        "title": "Test message of Sparewheel",
        "text": f"{by} asked for a test of route {route.name}. Nothing happened; no action needed.",
        "time": format_time(now),
        "count": 1,
        "incidents": [],
        "moreIncidents": 0,
        "alert": f"test-{asked.identity}",
        "owner": owner,
        "note": "",
        "remediation": "",
        "node": "",
        "pool": "",
        "stage": "",
        "outcome": "",
        "jobs": [],
        "durations": {},
        "actionNeeded": False,
        "drill": False,
        "dryRun": False,
    }
