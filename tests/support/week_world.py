"""A week of a cluster to look at: incidents of each kind, short spares, a closed breaker, a silent agent."""

from __future__ import annotations

from datetime import timedelta

from sparewheel.api.base import ObjectMeta
from sparewheel.api.faults import Fault
from sparewheel.api.gpu_host import GpuHost, GpuHostSpec, GpuHostStatus, HostPhase
from sparewheel.api.gpu_pool import DrillResult
from sparewheel.api.node_health import NodeHealth, NodeHealthStatus
from sparewheel.api.remediation import Delivery, JobRecord, NodeStage, Outcome, Remediation
from sparewheel.api.remediation_policy import RemediationPolicy, RemediationPolicySpec
from sparewheel.cli.week import Cluster
from tests.support.incidents import T0, at, claimed, fault, fenced, pool, stage

NOW = T0 + timedelta(days=6)
HOUR = 3600.0
EVIL = '<script>document.title="owned"</script>'


def happened(name: str, node: str, hours: float, **of_fault: object) -> Remediation:
    """Healed in 16 s; its job trains again after 9."""
    begin = hours * HOUR
    record = claimed(fenced(name))
    record.spec.node = node
    record.spec.fault = Fault.model_validate(
        {**fault().model_dump(), "first_seen": at(begin), "last_seen": at(begin), **of_fault}
    )
    record.status.stages = [
        stage(NodeStage.DETECTED, begin, begin + 0.4),
        stage(NodeStage.FENCED, begin + 0.4, begin + 1.1),
        stage(NodeStage.DRAINED, begin + 1.1, begin + 12),
        stage(NodeStage.REPLACED, begin + 1.2, begin + 9),
        stage(NodeStage.CLOSED, begin + 12, begin + 16),
    ]
    times = {"stopping_at": 1.0, "requeued_at": 2.0, "started_at": 5.0, "resumed_at": 9.0}
    job = JobRecord(job_id=int(700 + hours), user="ada", expedited=True, closed=True)
    record.status.jobs = [job.model_copy(update={key: at(begin + value) for key, value in times.items()})]
    record.status.fence_decided_at = at(begin + 0.5)
    record.status.replacement.claimed_at = at(begin + 1.2)
    record.status.replacement.quarantined_at = at(begin + 15)
    record.status.outcome, record.status.message = Outcome.HEALED, "Replaced by spare-1."
    record.status.outbox = [
        Delivery(
            key=f"{name}/detected",
            route="oncall",
            event="detected",
            created_at=at(begin),
            due_at=at(begin),
            delivered_at=at(begin + 1),
        )
    ]
    return record


def still_open(name: str, node: str, hours: float) -> Remediation:
    record = happened(name, node, hours)
    record.status.stages = [*record.status.stages[:2], stage(NodeStage.REPLACED, hours * HOUR + 1.2)]
    record.status.outcome, record.status.message = Outcome.OPEN, ""
    record.status.waiting_for = f"a spare {EVIL}"
    record.status.replacement.quarantined_at = None
    record.status.jobs[0].resumed_at = None
    record.status.jobs[0].not_requeued_reason = "it was submitted with --no-requeue"
    undelivered = record.status.outbox[0].model_copy(
        update={"delivered_at": None, "given_up_at": NOW, "last_error": "403 from the receiver"}
    )
    record.status.outbox.append(undelivered)
    return record


def cluster() -> Cluster:
    gpu = pool(size=8, spares=2)
    gpu.status.active, gpu.status.quarantined = 7, 1
    gpu.status.last_drill = DrillResult(time=NOW, passed=False, message="no free spare")
    gpu.metadata.creation_timestamp = T0 - timedelta(days=30)
    hosts = [
        GpuHost(
            metadata=ObjectMeta(name="h9"),
            spec=GpuHostSpec(pool="gpu", host="h9", provider_id="p://h9"),
            status=GpuHostStatus(phase=HostPhase.QUARANTINED, reason="XID 79 on 0000:17:00", since=at(HOUR)),
        )
    ]
    silent = NodeHealth(
        metadata=ObjectMeta(name="gpu-5"),
        status=NodeHealthStatus(heartbeat_time=NOW - timedelta(minutes=9), heartbeat_interval_seconds=10),
    )
    records = [
        happened("gpu-1-xid-79-1", "gpu-1", 20),
        happened("gpu-2-xid-48-2", "gpu-2", 70.5),
        happened("gpu-1-drill-3", "gpu-1", 100, drill=True),
        still_open("gpu-rack-12-node-107-with-a-long-name-xid-79-4", "gpu-rack-12-node-107-with-a-long-name", 143.5),
        happened("ages-ago-5", "gpu-3", -300),
    ]
    policy = RemediationPolicy(
        metadata=ObjectMeta(name="default"), spec=RemediationPolicySpec(max_fenced_nodes=4, fenced_window_seconds=3600)
    )
    return Cluster(pools=[gpu], hosts=hosts, health=[silent], records=records, policy=policy, now=NOW)
