"""Writes one node's health: NodeHealth, the Node condition, Events. Writes the condition only when it changed."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from datetime import datetime
from typing import Any, Protocol

from sparewheel.agent import report
from sparewheel.agent.api import ApiError
from sparewheel.api.names import GROUP, NAMESPACE, VERSION
from sparewheel.faults.classify import OpenFault

log = logging.getLogger(__name__)
MERGE_PATCH = "application/merge-patch+json"
STRATEGIC_PATCH = "application/strategic-merge-patch+json"


class Requests(Protocol):
    def request(self, method: str, path: str, body: object = None, content_type: str = ...) -> Any: ...


class NodeWriter:
    """The node ``name`` at one API server. Every method may raise ApiError; calling again is safe."""

    def __init__(self, api: Requests, name: str, namespace: str = NAMESPACE) -> None:
        self._api = api
        self._name = name
        self._namespace = namespace
        self._uid = ""
        self._health = f"/apis/{GROUP}/{VERSION}/nodehealths"
        self._condition: tuple[str, str, str] | None = None
        self._changed_at: datetime | None = None

    def load(self) -> tuple[dict[str, Any], dict[str, Any]]:
        """``(Node, status of NodeHealth)``; the NodeHealth is made where there is none or an older Node's."""
        try:
            node = self._api.request("GET", f"/api/v1/nodes/{self._name}")
            uid = node["metadata"]["uid"]
            status = self._load_health(uid)
        except (AttributeError, KeyError, TypeError, ValueError) as error:
            raise ApiError(f"Node {self._name}: the answer is no object of Kubernetes ({error!r})") from error
        if uid != self._uid:
            self._condition = None  # the Node was made anew, without our condition
        self._uid = uid
        return node, status

    def _load_health(self, uid: str) -> dict[str, Any]:
        try:
            health = self._api.request("GET", f"{self._health}/{self._name}")
        except ApiError as error:
            if error.status != 404:
                raise
            self._api.request("POST", self._health, report.node_health_wire(self._name, uid))
            return {}
        owners = health["metadata"].get("ownerReferences", [])
        if any(owner["uid"] == uid for owner in owners):
            return dict(health.get("status", {}))
        self._api.request(
            "PATCH", f"{self._health}/{self._name}", report.node_health_wire(self._name, uid), MERGE_PATCH
        )
        return {}

    def write_status(self, status: dict[str, Any]) -> None:
        path = f"{self._health}/{self._name}/status"
        try:
            self._api.request("PATCH", path, {"status": status}, MERGE_PATCH)
        except ApiError as error:
            if error.status != 404:
                raise
            self.load()
            self._api.request("PATCH", path, {"status": status}, MERGE_PATCH)

    def write_condition(self, seen: report.Seen, now: datetime) -> None:
        """Writes only on a change; NodeHealth carries the heartbeat."""
        current = report.condition(seen)
        if current == self._condition:
            return
        if self._condition is None or self._condition[0] != current[0] or self._changed_at is None:
            self._changed_at = now
        body = report.condition_wire(seen, now=now, changed_at=self._changed_at)
        self._api.request("PATCH", f"/api/v1/nodes/{self._name}/status", body, STRATEGIC_PATCH)
        self._condition = current

    def write_events(self, faults: Sequence[OpenFault]) -> None:
        """Events are best effort: one that cannot be written is logged, it never holds the report."""
        for fault in faults:
            body = report.event_wire(self._name, self._uid, fault, namespace="default")
            try:
                self._api.request("POST", "/api/v1/namespaces/default/events", body)
            except ApiError as error:
                if error.status != 409:
                    log.warning("event for %s not written: %s", fault.code, error)
                if error.status == 0:
                    return  # no answer: each more would hold the next heartbeat for its timeout
