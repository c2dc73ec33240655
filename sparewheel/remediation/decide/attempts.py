"""The same fault right after each of some repairs: then repairing is no cure, and a person has to look. Pure.

One chain: an incident that healed, and before it one whose node, or whose spare, was the same node.
"""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime, timedelta

from sparewheel.api.remediation import NodeStage, Outcome, Remediation, RemediationSpec, Trigger
from sparewheel.api.remediation_policy import RemediationPolicySpec
from sparewheel.remediation.decide.policy import HEALING
from sparewheel.remediation.decide.record import stage_record
from sparewheel.remediation.decide.treated import planned


def hold_reason(
    spec: RemediationSpec, policy: RemediationPolicySpec, history: Iterable[Remediation], now: datetime
) -> str:
    """Why this incident goes no further than the fence; empty when it is healed as usual. All times are our own."""
    if spec.dry_run or spec.trigger is Trigger.MANUAL or spec.fault.action not in HEALING:
        return ""
    code = spec.fault.code
    same = [one for one in history if one.spec.fault.code == code and _healed(one)]
    repairs: list[str] = []
    node, before = spec.node, now
    while (last := _last(same, node, before, policy.attempt_window_seconds)) is not None:
        repairs.append(last.metadata.name)
        same.remove(last)
        node, before = last.spec.node, _time(last, NodeStage.DETECTED) or before
    if len(repairs) < policy.max_attempts:
        return ""
    count = "one repair" if len(repairs) == 1 else f"each of {len(repairs)} repairs"
    return f"{code} came back right after {count} ({', '.join(repairs[:5])})"


def _healed(incident: Remediation) -> bool:
    return incident.status.outcome is Outcome.HEALED and not incident.spec.dry_run and planned(incident) in HEALING


def _last(incidents: list[Remediation], node: str, before: datetime, within_seconds: float) -> Remediation | None:
    """The last repair that left ``node`` in service, no longer ago than this."""
    since = before - timedelta(seconds=within_seconds)
    found = [
        (closed, incident)
        for incident in incidents
        if node in (incident.spec.node, incident.status.replacement.spare_node)
        and (closed := _time(incident, NodeStage.CLOSED)) is not None
        and since <= closed <= before
    ]
    return max(found, key=lambda one: one[0])[1] if found else None


def _time(incident: Remediation, stage: NodeStage) -> datetime | None:
    record = stage_record(incident.status, stage)
    return record.ended_at if record is not None else None
