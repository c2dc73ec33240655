"""From what was seen to what is written: NodeHealth status, the Node condition, Events. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

from sparewheel.api.enums import Action
from sparewheel.api.names import (
    API_VERSION,
    CONDITION_GPU_HEALTHY,
    REASON_ALL_HEALTHY,
    REASON_COUNT_MISMATCH,
    REASON_FAULT_OPEN,
    REASON_NOT_EVALUATED,
)
from sparewheel.faults.classify import OpenFault, Sighting

ACTING = frozenset({Action.CORDON, Action.RESET_GPU, Action.REBOOT, Action.REPLACE})
"""Actions that make a node unhealthy."""


@dataclass(slots=True)
class Seen:
    """What the agent knows at one moment. ``None`` where a look-up failed."""

    boot_id: str
    expected_gpus: int = 0
    seen_gpus: int | None = None
    expected_hcas: int = 0
    seen_hcas: int | None = None
    faults: list[OpenFault] = field(default_factory=list[OpenFault])
    jobs: dict[int, int] | None = None
    jobs_left: frozenset[int] = frozenset()
    """Jobs that had processes a moment ago."""
    jobs_observed: datetime | None = None
    malformed_lines: int = 0
    kernel_log_sequence: int | None = None
    kernel_log_error: str = ""
    message: str = ""


def rfc3339(time: datetime) -> str:
    return time.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")


def fault_wire(fault: OpenFault) -> dict[str, Any]:
    body: dict[str, Any] = {
        "code": fault.code,
        "device": fault.device,
        "action": fault.action.value,
        "severity": fault.severity.value,
        "source": fault.source.value,
        "firstSeen": rfc3339(fault.first_seen),
        "lastSeen": rfc3339(fault.last_seen),
        "count": fault.count,
        "message": fault.message,
        "drill": fault.drill,
        "recent": [_sighting_wire(sighting) for sighting in fault.recent],
    }
    if fault.gpu_index is not None:
        body["gpuIndex"] = fault.gpu_index
    return body


def _sighting_wire(sighting: Sighting) -> dict[str, Any]:
    body: dict[str, Any] = {"time": rfc3339(sighting.time), "count": sighting.count}
    return body if sighting.job_id is None else {**body, "jobId": sighting.job_id}


def _jobs_wire(seen: Seen) -> list[dict[str, int]]:
    """Those that have just left are there with no process: a job may end before the fault that ended it is told."""
    alive = seen.jobs or {}
    return [{"jobId": job, "processes": alive.get(job, 0)} for job in sorted({*alive, *seen.jobs_left})]


def status_wire(seen: Seen, *, now: datetime, version: str, interval_seconds: float) -> dict[str, Any]:
    """NodeHealth's status. Lists are whole, so a merge patch replaces them; a failed look-up is written as null."""
    return {
        "bootId": seen.boot_id,
        "agentVersion": version,
        "heartbeatTime": rfc3339(now),
        "heartbeatIntervalSeconds": interval_seconds,
        "gpus": {"expected": seen.expected_gpus, "seen": seen.seen_gpus},
        "hcas": {"expected": seen.expected_hcas, "seen": seen.seen_hcas},
        "faults": [fault_wire(fault) for fault in seen.faults],
        "jobs": _jobs_wire(seen),
        "jobsObservedTime": rfc3339(seen.jobs_observed) if seen.jobs is not None and seen.jobs_observed else None,
        "malformedLines": seen.malformed_lines,
        "kernelLogSequence": seen.kernel_log_sequence,
        "message": seen.message,
    }


def condition(seen: Seen) -> tuple[str, str, str]:
    """``(status, reason, message)`` of the Node condition GpuHealthy."""
    acting = [fault for fault in seen.faults if fault.action in ACTING]
    if acting:
        worst = acting[0]
        return "False", REASON_FAULT_OPEN, f"{worst.code} on {worst.device}: {worst.message}"[:1000]
    if seen.seen_gpus is None:
        return "Unknown", REASON_NOT_EVALUATED, seen.message or "the GPUs could not be counted"
    if seen.seen_gpus < seen.expected_gpus:
        return "False", REASON_COUNT_MISMATCH, f"{seen.seen_gpus} of {seen.expected_gpus} GPUs are seen"
    if seen.expected_hcas and seen.seen_hcas is None:
        return "Unknown", REASON_NOT_EVALUATED, seen.message or "the InfiniBand adapters could not be counted"
    if seen.seen_hcas is not None and seen.seen_hcas < seen.expected_hcas:
        return "False", REASON_COUNT_MISMATCH, f"{seen.seen_hcas} of {seen.expected_hcas} adapters are seen"
    if seen.kernel_log_error:
        return "Unknown", REASON_NOT_EVALUATED, seen.kernel_log_error
    return "True", REASON_ALL_HEALTHY, f"{seen.seen_gpus} of {seen.expected_gpus} GPUs are seen, no fault is open"


def condition_wire(seen: Seen, *, now: datetime, changed_at: datetime) -> dict[str, Any]:
    """The Node's status with our one condition, for a strategic merge patch (conditions merge by type)."""
    status, reason, message = condition(seen)
    seconds = "%Y-%m-%dT%H:%M:%SZ"
    row = {
        "type": CONDITION_GPU_HEALTHY,
        "status": status,
        "reason": reason,
        "message": message,
        "lastHeartbeatTime": now.astimezone(UTC).strftime(seconds),
        "lastTransitionTime": changed_at.astimezone(UTC).strftime(seconds),
    }
    return {"status": {"conditions": [row]}}


def event_wire(node: str, node_uid: str, fault: OpenFault, *, namespace: str) -> dict[str, Any]:
    """One Event for one fault of one node; its name is the same for the same fault, so it is written once."""
    device = fault.device.replace(":", "-") or "node"
    name = (
        f"{node}.{fault.code.lower().replace(' ', '-').replace('_', '-')}.{device}.{int(fault.first_seen.timestamp())}"
    )
    return {
        "apiVersion": "v1",
        "kind": "Event",
        "metadata": {"name": name, "namespace": namespace},
        "involvedObject": {"apiVersion": "v1", "kind": "Node", "name": node, "uid": node_uid},
        "reason": "GpuFault" if not fault.drill else "GpuFaultDrill",
        "message": f"{fault.code} on {fault.device or 'the node'} asks for {fault.action}: {fault.message}"[:1000],
        "type": "Warning" if fault.action in ACTING else "Normal",
        "source": {"component": "sparewheel-agent", "host": node},
        "firstTimestamp": fault.first_seen.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ"),
        "lastTimestamp": fault.last_seen.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ"),
        "count": fault.count,
    }


def node_health_wire(node: str, node_uid: str) -> dict[str, Any]:
    """The empty object of a node, owned by it: it goes with the Node."""
    owner = {"apiVersion": "v1", "kind": "Node", "name": node, "uid": node_uid}
    return {
        "apiVersion": API_VERSION,
        "kind": "NodeHealth",
        "metadata": {"name": node, "ownerReferences": [owner]},
        "spec": {},
    }


def new_faults(before: Sequence[OpenFault], after: Sequence[OpenFault]) -> list[OpenFault]:
    """Faults that are open now and were not before."""
    known = {(fault.code, fault.device) for fault in before}
    return [fault for fault in after if (fault.code, fault.device) not in known]
