"""Records and observations for tests of the decisions: whole by default, changed where a test says so."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Any

from sparewheel.api.base import ObjectMeta
from sparewheel.api.faults import Action, Fault, FaultSource, Severity
from sparewheel.api.gpu_pool import GpuPool, GpuPoolSpec, NodeSetRef, WarmBackend
from sparewheel.api.names import LABEL_POOL, LABEL_ROLE, ROLE_ACTIVE
from sparewheel.api.remediation import (
    FenceKind,
    JobRecord,
    NodeStage,
    Remediation,
    RemediationSpec,
    RemediationStatus,
    StageRecord,
)
from sparewheel.remediation.decide.observations import JobView, NodeView, PodView
from tests.support.clocks import START

T0 = START
NODE = "gpu-7"


def at(seconds: float) -> datetime:
    return T0 + timedelta(seconds=seconds)


def fault(code: str = "XID 79", device: str = "0000:17:00", **fields: Any) -> Fault:
    return Fault.model_validate(
        {
            "code": code,
            "device": device,
            "gpu_index": 3,
            "action": Action.REPLACE,
            "severity": Severity.CRITICAL,
            "source": FaultSource.KERNEL_LOG,
            "first_seen": T0,
            "last_seen": T0,
            "message": "GPU has fallen off the bus.",
            **fields,
        }
    )


def pool(**fields: Any) -> GpuPool:
    spec = GpuPoolSpec(
        size=2,
        spares=1,
        backend=WarmBackend(node_selector={"pool": "gpu"}),
        node_set_ref=NodeSetRef(namespace="slurm", name="gpu"),
    ).model_copy(update=fields)
    return GpuPool(metadata=ObjectMeta(name="gpu", namespace="sparewheel"), spec=spec)


def node(**fields: Any) -> NodeView:
    values: dict[str, Any] = {
        "name": NODE,
        "uid": "node-uid",
        "labels": {LABEL_POOL: "gpu", LABEL_ROLE: ROLE_ACTIVE},
        "boot_id": "boot",
        "gpus_offered": 8,
        **fields,
    }
    return NodeView(**values)


def worker(**fields: Any) -> PodView:
    values: dict[str, Any] = {
        "name": "gpu-0",
        "namespace": "slurm",
        "uid": "pod-uid",
        "node_name": NODE,
        "app_name": "slurmd",
        "hostname": "gpu-0",
        **fields,
    }
    return PodView(**values)


def job(**fields: Any) -> JobView:
    values: dict[str, Any] = {
        "job_id": 7,
        "states": frozenset({"RUNNING"}),
        "user": "ada",
        "name": "train",
        "nodes": frozenset({"gpu-0", "gpu-1"}),
        "expedited": True,
        **fields,
    }
    values["states"] = frozenset(values["states"])
    return JobView(**values)


def remediation(name: str = "gpu-7-xid-79-0", **fields: Any) -> Remediation:
    """``fields`` named as in the spec go there, others into the status."""
    spec: dict[str, Any] = {
        "node": NODE,
        "node_uid": "node-uid",
        "boot_id": "boot",
        "pool": "gpu",
        "slurm_node": "gpu-0",
        "worker_pod_uid": "pod-uid",
        "fault": fault(),
        "grace_seconds": 60,
    }
    status: dict[str, Any] = {}
    for key, value in fields.items():
        (spec if key in RemediationSpec.model_fields else status)[key] = value
    return Remediation(
        metadata=ObjectMeta(name=name, namespace="sparewheel"),
        spec=RemediationSpec(**spec),
        status=RemediationStatus(**status),
    )


def stage(name: NodeStage, start: float, end: float | None = None) -> StageRecord:
    return StageRecord(name=name, started_at=at(start), ended_at=None if end is None else at(end), attempts=1)


def fenced(name: str = "gpu-7-xid-79-0", struck: float = 1.0, jobs: list[JobRecord] | None = None) -> Remediation:
    """A record whose node was fenced one second after the fault."""
    record = remediation(
        name,
        stages=[stage(NodeStage.DETECTED, 0, 0.5), stage(NodeStage.FENCED, 0.5, struck)],
        fence=FenceKind.DOWN,
        jobs_listed_at=at(struck),
        jobs=[JobRecord(job_id=7, user="ada", expedited=True)] if jobs is None else jobs,
    )
    record.status.stage = NodeStage.FENCED
    record.status.owned.cordon = record.status.owned.fault_taint = True
    record.status.owned.slurm_down = ["gpu-0"]
    record.status.owned.slurm_struck_at = at(struck)
    record.status.owned.slurmd_started_before = at(-100)
    return record


def claimed(record: Remediation, seconds: float = 2.0) -> Remediation:
    replacement = record.status.replacement
    replacement.bad_host, replacement.spare_host = NODE, "spare-1"
    replacement.claimed_at = at(seconds)
    record.status.stages.append(stage(NodeStage.REPLACED, seconds))
    record.status.stages.append(stage(NodeStage.DRAINED, seconds))
    return record
