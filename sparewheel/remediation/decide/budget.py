"""Two limits: the budget on replacing (per pool) and the breaker on fencing (per fleet; fencing kills jobs)."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime, timedelta

from sparewheel.api.gpu_pool import GpuPoolSpec
from sparewheel.api.remediation import FenceKind, NodeStage, Outcome, Remediation
from sparewheel.api.remediation_policy import RemediationPolicySpec
from sparewheel.remediation.decide.record import stage_record


def holds_slot(remediation: Remediation) -> bool:
    """An open incident that has claimed a spare takes one of its pool's replacement slots until it closes."""
    return remediation.status.outcome is Outcome.OPEN and remediation.status.replacement.claimed_at is not None


def replacement_refused(name: str, pool: str, spec: GpuPoolSpec, incidents: Iterable[Remediation]) -> str:
    """Empty when incident ``name`` may claim a spare now, else what it waits for."""
    holders = sorted(
        other.metadata.name
        for other in incidents
        if other.spec.pool == pool and other.metadata.name != name and holds_slot(other)
    )
    if len(holders) < spec.max_concurrent_replacements:
        return ""
    limit = spec.max_concurrent_replacements
    return f"a replacement slot of pool {pool} ({len(holders)} of {limit} in use: {', '.join(holders)})"


def fenced_within(incidents: Iterable[Remediation], now: datetime, window_seconds: float, but: str = "") -> set[str]:
    """Nodes whose fence ended jobs within the window, without incident ``but``."""
    since = now - timedelta(seconds=window_seconds)
    nodes: set[str] = set()
    for incident in incidents:
        record = stage_record(incident.status, NodeStage.FENCED)
        if incident.metadata.name == but or record is None or record.started_at < since or incident.spec.dry_run:
            continue
        if incident.status.fence in {FenceKind.DOWN, FenceKind.REQUEUE}:
            nodes.add(incident.spec.node)
    return nodes


def breaker_open(name: str, policy: RemediationPolicySpec, incidents: Iterable[Remediation], now: datetime) -> bool:
    """True when one more fence would be more than the policy allows within its window."""
    return len(fenced_within(incidents, now, policy.fenced_window_seconds, but=name)) >= policy.max_fenced_nodes
