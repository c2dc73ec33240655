"""A notifier over any routes and secrets, and the message that the tests send."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable, Mapping
from datetime import UTC, datetime
from typing import Any

import httpx
import pytest

from sparewheel.api.gpu_pool import SecretKeyRef
from sparewheel.api.remediation_policy import RemediationPolicySpec
from sparewheel.api.routes import Person, Route
from sparewheel.notify.client import RouteNotifier

NOW = datetime(2026, 3, 4, 5, 6, 7, tzinfo=UTC)
EVENT: dict[str, Any] = {
    "event": "incident.detected",
    "severity": "critical",
    "title": "XID 79 on gpu-1 <a>",
    "text": "The job is requeued.",
    "time": "2026-03-04T05:06:07.000000Z",
    "count": 1,
    "incidents": [
        {"remediation": "gpu-1-x", "node": "gpu-1", "pool": "gpu", "code": "XID 79", "outcome": "Open"},
    ],
    "alert": "gpu-1-x",
    "owner": "",
    "note": "",
    "remediation": "gpu-1-x",
    "node": "gpu-1",
    "pool": "gpu",
    "stage": "fenced",
    "outcome": "Open",
    "fault": {"code": "XID 79", "device": "0000:17:00", "gpuIndex": 3, "message": "off the bus", "firstSeen": "x"},
    "jobs": [{"jobId": 7, "user": "alice", "name": "train", "what": "it is requeued", "actionNeeded": False}],
    "actionNeeded": False,
}

MakeNotifier = Callable[..., RouteNotifier]


def ref(key: str) -> SecretKeyRef:
    return SecretKeyRef(name="routes", key=key)


@pytest.fixture
async def notifier() -> AsyncGenerator[MakeNotifier, None]:
    """``make(routes, secrets, people)``."""
    async with httpx.AsyncClient() as client:

        def make(
            *routes: Route, secrets: Mapping[str, str] | None = None, people: Mapping[str, Person] | None = None
        ) -> RouteNotifier:
            async def secret_of(asked: SecretKeyRef) -> str:
                return (secrets or {})[asked.key]

            policy = RemediationPolicySpec(routes=[*routes], people=dict(people or {}))
            return RouteNotifier(lambda: policy, secret_of, client, lambda: NOW)

        yield make
