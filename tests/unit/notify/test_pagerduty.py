"""PagerDuty's Events API v2: against a receiver that checks what PagerDuty checks."""

from __future__ import annotations

import json
from typing import Any

import pytest

from sparewheel.api.routes import PagerDutyRoute
from sparewheel.notify.pagerduty import MAX_SUMMARY_CHARACTERS
from sparewheel.notify.port import NotifyError
from tests.support.receivers import Request, Web, web
from tests.unit.notify.conftest import EVENT, MakeNotifier, ref

ROUTING_KEY = "R0" + "CANARY" * 5


class PagerDuty:
    """The alerts of one service, as the API's rules make them."""

    def __init__(self, receiver: Web) -> None:
        self.receiver = receiver
        self.alerts: dict[str, str] = {}
        receiver.status = 202
        receiver.answer = self.take

    def take(self, request: Request) -> bytes:
        body = request.json
        wrong = [f"'{name}' is missing" for name in ("routing_key", "event_action", "payload") if not body.get(name)]
        payload = body["payload"]
        wrong += [f"'payload.{name}' is missing" for name in ("summary", "source") if not payload.get(name)]
        if payload.get("severity") not in {"critical", "error", "warning", "info"}:
            wrong.append("'payload.severity' is invalid")
        assert wrong == []
        key, action = body["dedup_key"], body["event_action"]
        if action == "trigger":
            self.alerts.setdefault(key, "triggered")
        elif key in self.alerts:
            self.alerts[key] = {"acknowledge": "acknowledged", "resolve": "resolved"}[action]
        return json.dumps({"status": "success", "dedup_key": key}).encode()


def route(receiver: Web) -> PagerDutyRoute:
    return PagerDutyRoute(name="pager", routing_key_ref=ref("key"), url=receiver.url("/v2/enqueue"))


def ended(outcome: str) -> dict[str, Any]:
    return {**EVENT, "event": "incident.closed", "severity": "info", "incidents": [{"outcome": outcome}]}


async def test_an_incident_is_one_alert_from_trigger_to_resolve(notifier: MakeNotifier) -> None:
    async with web() as receiver:
        pager = PagerDuty(receiver)
        send = notifier(route(receiver), secrets={"key": ROUTING_KEY}).send
        await send("pager", EVENT, "a")
        assert pager.alerts == {"gpu-1-x": "triggered"}
        await send("pager", {**EVENT, "event": "job.resumed", "severity": "info"}, "b")
        assert pager.alerts == {"gpu-1-x": "acknowledged"}
        await send("pager", ended("Healed"), "c")
        assert pager.alerts == {"gpu-1-x": "resolved"}
    first = receiver.got[0].json
    assert first["payload"]["severity"] == "critical"
    assert (first["payload"]["source"], first["payload"]["class"]) == ("gpu-1", "XID 79")
    assert first["routing_key"] == ROUTING_KEY


async def test_what_needs_a_person_is_never_acknowledged_or_resolved(notifier: MakeNotifier) -> None:
    async with web() as receiver:
        pager = PagerDuty(receiver)
        send = notifier(route(receiver), secrets={"key": ROUTING_KEY}).send
        await send("pager", {**EVENT, "event": "job.resumed", "severity": "warning", "actionNeeded": True}, "a")
        await send("pager", ended("Failed"), "b")
        assert pager.alerts == {"gpu-1-x": "triggered"}
        await send("pager", {**EVENT, "event": "breaker.open"}, "c")
        await send("pager", ended("Healed"), "d")
        assert pager.alerts == {"gpu-1-x": "resolved", "gpu-1-x/breaker": "triggered"}
        await send("pager", {**EVENT, "event": "breaker.closed", "severity": "info"}, "e")
    assert pager.alerts == {"gpu-1-x": "resolved", "gpu-1-x/breaker": "resolved"}


async def test_a_test_leaves_no_alert_open_and_a_long_title_is_cut(notifier: MakeNotifier) -> None:
    async with web() as receiver:
        pager = PagerDuty(receiver)
        send = notifier(route(receiver), secrets={"key": ROUTING_KEY}).send
        await send("pager", {**EVENT, "event": "test", "severity": "info", "title": "x" * 2000, "fault": None}, "a")
    assert pager.alerts == {"gpu-1-x": "resolved"}
    assert len(receiver.got[0].json["payload"]["summary"]) == MAX_SUMMARY_CHARACTERS


async def test_a_refusal_shows_the_reason_and_not_the_key(notifier: MakeNotifier) -> None:
    async with web() as receiver:
        receiver.status = 400
        receiver.answer = lambda request: f"invalid event: routing_key {request.json['routing_key']} is".encode()
        with pytest.raises(NotifyError, match=r"HTTP 400: invalid event: routing_key \*\*\*") as error:
            await notifier(route(receiver), secrets={"key": ROUTING_KEY}).send("pager", EVENT, "a")
    assert error.value.permanent
    assert "CANARY" not in str(error.value)
