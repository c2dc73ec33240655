"""Feeds the controller's state from watches, and wakes the keys to look at. Runs on standby too: caches are warm."""

from __future__ import annotations

import asyncio
import logging
import sys
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, TypeVar

from pydantic import ValidationError

from sparewheel.api.base import ApiObject, lean
from sparewheel.api.gpu_host import GpuHost
from sparewheel.api.gpu_pool import GpuPool
from sparewheel.api.names import (
    ANNOTATION_NOTIFY_TEST,
    GROUP,
    LABEL_APP_NAME,
    LABEL_POOL,
    LABEL_VETO,
    OWN_CONDITIONS,
    POLICY_NAME,
    SLINKY_GROUP,
    SLINKY_POD_HOSTNAME,
    SLURMD_APP_NAME,
    USUAL_CONDITIONS,
)
from sparewheel.api.node_health import NodeHealth
from sparewheel.api.remediation import Remediation
from sparewheel.api.remediation_policy import RemediationPolicy, RemediationPolicySpec, RemediationPolicyStatus
from sparewheel.kube.informer import Change, Informer
from sparewheel.kube.port import (
    GPU_HOST,
    GPU_POOL,
    NODE,
    NODE_HEALTH,
    POD,
    REMEDIATION,
    REMEDIATION_POLICY,
    Json,
    Resource,
)
from sparewheel.remediation.controller.state import State
from sparewheel.remediation.stages.views import node_view, pod_view

log = logging.getLogger("sparewheel.remediation")

MAX_WORDS = 300
OUR_GROUPS = (GROUP, SLINKY_GROUP)
WORKER_LABELS = (LABEL_APP_NAME, SLINKY_POD_HOSTNAME, LABEL_VETO)
Wake = Callable[[str, str], None]
"""Kind and name of what to look at."""


def slim_node(body: Json) -> Json:
    """What a NodeView needs; 10,000 Nodes stay small."""
    metadata: Json = body["metadata"]
    status: Json = body.get("status") or {}
    info: Json = status.get("nodeInfo") or {}
    conditions: list[Json] = status.get("conditions") or []
    kept_conditions = [_slim_condition(c) for c in conditions if _may_matter(c)]
    spec: Json = body.get("spec") or {}
    return {
        "metadata": {
            **{key: metadata[key] for key in ("name", "uid", "resourceVersion") if key in metadata},
            "labels": _ours(metadata.get("labels")),
            "annotations": _ours(metadata.get("annotations")),
        },
        "spec": {key: spec[key] for key in ("unschedulable", "taints", "providerID") if key in spec},
        "status": {
            "conditions": kept_conditions,
            "nodeInfo": {"bootID": info.get("bootID", "")},
        },
    }


def _ours(values: dict[str, str] | None) -> dict[str, str]:
    """Labels or annotations that we or Slinky read: a Node of a large cluster has a hundred others."""
    return {key: value for key, value in (values or {}).items() if key.partition("/")[0].endswith(OUR_GROUPS)}


def _ready(status: Json) -> list[Json]:
    conditions: list[Json] = status.get("conditions") or []
    return [{"type": "Ready", "status": c.get("status")} for c in conditions if c.get("type") == "Ready"]


def slim_worker(body: Json) -> Json:
    """What a PodView needs."""
    metadata: Json = body["metadata"]
    spec: Json = body.get("spec") or {}
    status: Json = body.get("status") or {}
    labels: dict[str, str] = metadata.get("labels") or {}
    kept = ("name", "namespace", "uid", "resourceVersion", "deletionTimestamp")
    return {
        "metadata": {
            **{key: metadata[key] for key in kept if key in metadata},
            "labels": {key: labels[key] for key in WORKER_LABELS if key in labels},
        },
        "spec": {"nodeName": spec.get("nodeName", "")},
        "status": {
            "phase": status.get("phase", ""),
            "conditions": _ready(status),
        },
    }


def slim_host(body: Json | None) -> Json | None:
    """Of whose metadata nobody asks the cache for more than its name, nor for its resources: what is written, and what
    a spare must have, is read afresh."""
    if body is None:
        return None
    spec: Json = body.get("spec") or {}
    slim = {key: value for key, value in spec.items() if key != "resources"}
    return {**body, "metadata": {"name": body["metadata"]["name"]}, "spec": slim}


def _may_matter(row: Json) -> bool:
    kind = row.get("type")
    if kind in USUAL_CONDITIONS:
        return row.get("status") == "True"
    return kind == "Ready" or kind not in OWN_CONDITIONS


def _slim_condition(row: Json) -> Json:
    """Most conditions say that all is well, in many words that nobody reads; their names are the same on each node."""
    status = row.get("status")
    slim: Json = {"type": sys.intern(str(row.get("type", ""))), "status": status}
    if row.get("type") != "Ready":
        slim["lastTransitionTime"] = row.get("lastTransitionTime")
        slim["reason"] = sys.intern(str(row.get("reason") or ""))
        if status == "True":
            slim["message"] = str(row.get("message") or "")[:MAX_WORDS]
    return slim


def whole(body: Json) -> Json:
    return body


def known_by_state(body: Json) -> Json:
    """Of kinds that the state holds as models, ten thousand of them: the version, and a host's pool."""
    metadata: Json = body["metadata"]
    spec: Json = body.get("spec") or {}
    slim: Json = {"metadata": {"resourceVersion": metadata.get("resourceVersion", "")}}
    return {**slim, "spec": {"pool": spec["pool"]}} if "pool" in spec else slim


@dataclass(slots=True)
class Watches:
    state: State
    wake: Wake
    informers: list[Informer] = field(default_factory=list[Informer])

    def __post_init__(self) -> None:
        self.state.held_body = self._watch(NODE, self._node, slim_node).get
        self._watch(NODE_HEALTH, self._health, hold=known_by_state)
        self._watch(POD, self._worker, slim_worker, labels={LABEL_APP_NAME: SLURMD_APP_NAME})
        self._watch(GPU_POOL, self._pool, namespaced=True)
        self._watch(GPU_HOST, self._host, hold=known_by_state, namespaced=True)
        self._watch(REMEDIATION, self._record, namespaced=True)
        self._watch(REMEDIATION_POLICY, self._policy, namespaced=True)

    def _watch(
        self,
        resource: Resource,
        listener: Callable[[Change], None],
        keep: Callable[[Json], Json] = whole,
        *,
        hold: Callable[[Json], Json] | None = None,
        namespaced: bool = False,
        labels: dict[str, str] | None = None,
    ) -> Informer:
        state = self.state
        space = state.namespace if namespaced else None
        informer = Informer(state.kube, resource, state.clock, space, keep, hold, labels)
        informer.add_listener(listener)
        self.informers.append(informer)
        return informer

    async def run(self) -> None:
        async with asyncio.TaskGroup() as group:
            for informer in self.informers:
                group.create_task(informer.run(), name=f"watch {informer.resource.plural}")

    async def synced(self) -> None:
        for informer in self.informers:
            await informer.synced.wait()

    def troubles(self) -> list[str]:
        """Why watches fail at the moment."""
        return [informer.last_error for informer in self.informers if informer.last_error]

    # ---------------------------------------------------------------- listeners
    def _node(self, change: Change) -> None:
        name = change.key[1]
        if change.new is None:
            gone = self.state.nodes.pop(name, None)
            if gone is not None and LABEL_POOL in gone.labels:
                self.state.gone_nodes[name] = gone
                self.wake("pool", gone.labels[LABEL_POOL])
            for tracker in (self.state.leases, self.state.heartbeats, self.state.lives):
                tracker.forget(name)  # the next life of the name is heard anew
        else:
            self.state.gone_nodes.pop(name, None)
            view = self.state.nodes[name] = node_view(change.new)
            self.state.lives.hear(name, view.uid, self.state.clock.monotonic_seconds())
        self.wake("node", name)

    def _worker(self, change: Change) -> None:
        if change.old is not None:
            self.state.drop_worker(pod_view(change.old))
        if change.new is not None:
            self.state.put_worker(pod_view(change.new))

    def _health(self, change: Change) -> None:
        name = change.key[1]
        if change.new is None:
            self.state.healths.pop(name, None)
            self.state.heartbeats.forget(name)
            return
        report = parsed(NodeHealth, change.new)
        if report is None:
            return
        before = self.state.healths.get(name)
        self.state.hear(report)
        news = before is None or before.faults != report.status.faults or bool(report.status.faults)
        if news or self.state.open_incident(name) is not None:
            self.wake("node", name)

    def _pool(self, change: Change) -> None:
        name, before = change.key[1], self.state.pools.get(change.key[1])
        pool = parsed(GpuPool, change.new)
        if change.new is None:
            self.state.pools.pop(name, None)
        elif pool is not None:
            self.state.pools[name] = pool
            if before is not None and before.spec != pool.spec:
                self._wake_nodes(name)  # other rules, or a pause is over: what was asked for meanwhile is seen now
        self.wake("pool", name)

    def _wake_nodes(self, pool: str) -> None:
        for name, node in self.state.nodes.items():
            if node.labels.get(LABEL_POOL) == pool:
                self.wake("node", name)

    def _host(self, change: Change) -> None:
        host = parsed(GpuHost, slim_host(change.new))
        if change.new is None:
            self.state.hosts.pop(change.key[1], None)
        elif host is not None:
            self.state.hosts[change.key[1]] = host
        body = change.new or change.old or {}
        spec: Json = body.get("spec") or {}
        pool = str(spec.get("pool", ""))
        if pool:
            self.wake("spares", f"{pool}/{change.key[1]}")

    def _record(self, change: Change) -> None:
        name = change.key[1]
        if change.new is None:
            self.state.drop_record(name)
        else:
            record = parsed(Remediation, change.new)
            if record is not None:
                self.state.put_record(record)
        self.wake("record", name)

    def _policy(self, change: Change) -> None:
        if change.key[1] != POLICY_NAME:
            return
        policy = parsed(RemediationPolicy, change.new)
        if change.new is None or policy is not None:
            before = (self.state.policy_spec, self.state.policy_status.closed_at)
            self.state.policy_spec = policy.spec if policy is not None else RemediationPolicySpec()
            self.state.policy_status = policy.status if policy is not None else RemediationPolicyStatus()
            if before != (self.state.policy_spec, self.state.policy_status.closed_at):
                for node in self.state.nodes:  # other rules, or a person closed the breaker
                    self.wake("node", node)
        if policy is not None:
            self.state.notify_request = policy.metadata.annotations.get(ANNOTATION_NOTIFY_TEST, "")
            self.state.notify_answered = policy.status.notify_test.request
            self.wake("notify-test", POLICY_NAME)
            self.wake("breaker", POLICY_NAME)


T = TypeVar("T", bound=ApiObject)


def parsed(kind: type[T], body: dict[str, Any] | None) -> T | None:
    """The object, or None with a line in the log: one object that doesn't fit must not stop the rest."""
    if body is None:
        return None
    try:
        return lean(kind.from_wire(body))
    except ValidationError as error:
        name = body.get("metadata", {}).get("name")
        log.warning("%s %s doesn't fit its model and is left alone: %s", kind.KIND, name, error)
        return None
