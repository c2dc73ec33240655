"""From the ports' answers to the decisions' snapshots. Pure."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from datetime import datetime
from types import MappingProxyType
from typing import Any, Final, cast

from sparewheel.api.names import (
    ANNOTATION_VETO,
    GPU_RESOURCE,
    LABEL_APP_NAME,
    LABEL_VETO,
    OWN_CONDITIONS,
    SLINKY_POD_HOSTNAME,
    VETO_VALUE,
)
from sparewheel.capacity.nodes import allocatable_of
from sparewheel.kube.port import Json
from sparewheel.remediation.decide.observations import ConditionView, JobView, NodeView, PodView, SlurmNodeView
from sparewheel.slurm.port import SlurmJob, SlurmNode

_MIRROR = "kubernetes.io/config.mirror"
NO_TAINTS: Final = frozenset[str]()
"""One for all: an empty set takes as much as a small one, and ten thousand Nodes have none."""
NO_STRINGS: Final = MappingProxyType(dict[str, str]())
"""The same."""


def _part(body: Json, name: str) -> Json:
    return cast("Json", body.get(name) or {})


def _strings(body: Json, name: str) -> Mapping[str, str]:
    return cast("Mapping[str, str]", body.get(name) or NO_STRINGS)


def _once(value: object) -> str:
    """A name that other views bear too: ten thousand of each stand once."""
    return sys.intern(str(value))


def _condition(body: Json, kind: str) -> str:
    for condition in cast("list[dict[str, Any]]", _part(body, "status").get("conditions") or []):
        if condition.get("type") == kind:
            return str(condition.get("status"))
    return "Unknown"


def node_view(body: Json) -> NodeView:
    metadata, spec = _part(body, "metadata"), _part(body, "spec")
    ready = _condition(body, "Ready")
    return NodeView(
        name=_once(metadata["name"]),
        uid=str(metadata.get("uid", "")),
        ready={"True": True, "False": False}.get(ready),
        unschedulable=bool(spec.get("unschedulable", False)),
        taints=_taints(spec),
        labels={key: _once(value) for key, value in _strings(metadata, "labels").items()},
        annotations=_strings(metadata, "annotations"),
        boot_id=_once(_part(_part(body, "status"), "nodeInfo").get("bootID", "")),
        provider_id=str(spec.get("providerID", "")),
        conditions=_foreign_conditions(body),
        gpus_offered=_gpus_offered(body),
    )


def _taints(spec: Json) -> frozenset[str]:
    rows = cast("list[dict[str, Any]]", spec.get("taints") or [])
    return frozenset(str(taint["key"]) for taint in rows) if rows else NO_TAINTS


def _gpus_offered(body: Json) -> int | None:
    """A Node whose allocatable resources are not there at all was cut down on its way, or is none yet."""
    return allocatable_of(body, GPU_RESOURCE) if _part(_part(body, "status"), "allocatable") else None


def _foreign_conditions(body: Json) -> tuple[ConditionView, ...]:
    """One without a readable time can't be dated, and so can't be told from an earlier one: it is left out."""
    found: list[ConditionView] = []
    for row in cast("list[dict[str, Any]]", _part(body, "status").get("conditions") or []):
        since, kind = _time(row.get("lastTransitionTime")), str(row.get("type", ""))
        if kind not in OWN_CONDITIONS and since is not None:
            words = (str(row.get("reason") or ""), str(row.get("message") or ""))
            found.append(ConditionView(kind, str(row.get("status", "")), since, *words))
    return tuple(found)


def _time(value: object) -> datetime | None:
    try:
        time = datetime.fromisoformat(str(value))
    except ValueError:
        return None
    return time if time.tzinfo is not None else None


def pod_view(body: Json) -> PodView:
    metadata, spec = _part(body, "metadata"), _part(body, "spec")
    labels = _strings(metadata, "labels")
    owners = cast("list[dict[str, Any]]", metadata.get("ownerReferences") or [])
    deletion = metadata.get("deletionTimestamp")
    return PodView(
        name=_once(metadata["name"]),
        namespace=_once(metadata.get("namespace", "")),
        uid=str(metadata.get("uid", "")),
        node_name=_once(spec.get("nodeName") or ""),
        app_name=_once(labels.get(LABEL_APP_NAME, "")),
        hostname=_once(labels.get(SLINKY_POD_HOSTNAME, "")),
        veto=labels.get(LABEL_VETO) == VETO_VALUE,
        veto_note=_strings(metadata, "annotations").get(ANNOTATION_VETO, ""),
        daemon=any(owner.get("kind") == "DaemonSet" for owner in owners),
        mirror=_MIRROR in _strings(metadata, "annotations"),
        finished=_part(body, "status").get("phase") in {"Succeeded", "Failed"},
        ready=_condition(body, "Ready") == "True",
        deletion_due=datetime.fromisoformat(str(deletion)) if deletion else None,
    )


def slurm_node_view(node: SlurmNode) -> SlurmNodeView:
    return SlurmNodeView(node.name, node.states, node.reason, node.slurmd_start_time, node.reason_changed_at)


def job_view(job: SlurmJob, places: Mapping[str, str] | None = None) -> JobView:
    """``places``: Slurm node name to the Kubernetes Node that it runs on; a name not there stays as it is."""
    known = places or {}
    return JobView(
        job_id=job.job_id,
        states=job.states,
        user=job.user,
        name=job.name,
        partition=job.partition,
        nodes=frozenset(job.nodes),
        hosts=tuple(sorted(known.get(node, node) for node in job.nodes)),
        restart_count=job.restart_count,
        batch=job.batch,
        requeue=job.requeue,
        expedited=job.expedited,
        state_reason=job.state_reason,
        priority=job.priority,
        exit_code=job.exit_code,
        exit_signal=job.exit_signal,
        array=bool(job.array_job_id),
        het_job_id=job.het_job_id,
        submit_time=job.submit_time,
        start_time=job.start_time,
        end_time=job.end_time,
        extra=job.extra,
        comment=job.comment,
    )
