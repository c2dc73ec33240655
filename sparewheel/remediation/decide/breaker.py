"""The breaker on fencing, which ends jobs: after too many at once the rest is only drained. Pure.

It stays open in the policy's status until a person closes it. Percent are of GPU nodes that take work, rounded up; the
stricter limit holds.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from datetime import datetime, timedelta

from sparewheel.api.names import NODE_CODES
from sparewheel.api.remediation import FenceKind, NodeStage, Remediation
from sparewheel.api.remediation_policy import Backlog, RemediationPolicySpec, RemediationPolicyStatus
from sparewheel.remediation.decide.budget import allowed
from sparewheel.remediation.decide.events import EVENT_BREAKER, EVENT_BREAKER_CLOSED
from sparewheel.remediation.decide.record import ended, is_open, stage_record

COMMON_SECONDS = 60.0
COMMON_NODES = 3
"""This many nodes with one code within this time are one cause rather than so many faults."""


def fenced_since(incidents: Iterable[Remediation], since: datetime, but: str = "") -> set[str]:
    """Nodes whose fence ended jobs from then on, without incident ``but``.

    One that was called off before its strike has fenced nothing.
    """
    nodes: set[str] = set()
    for incident in incidents:
        record = stage_record(incident.status, NodeStage.FENCED)
        if incident.metadata.name == but or record is None or incident.spec.dry_run:
            continue
        if not is_open(incident) and incident.status.owned.slurm_struck_at is None:
            continue
        decided = incident.status.fence_decided_at or record.started_at
        if decided >= since and incident.status.fence in {FenceKind.DOWN, FenceKind.REQUEUE}:
            nodes.add(incident.spec.node)
    return nodes


def fence_limit(policy: RemediationPolicySpec, gpu_nodes: int) -> int:
    """How many nodes may be fenced within the window; at least 1."""
    return allowed(policy.max_fenced_nodes, policy.max_fenced_percent, gpu_nodes) or 1


def counted_since(policy: RemediationPolicySpec, status: RemediationPolicyStatus, now: datetime) -> datetime:
    """From when on fences count: those of the window, but none that a person has closed the breaker over."""
    since = now - timedelta(seconds=policy.fenced_window_seconds)
    return since if status.closed_at is None else max(since, status.closed_at)


def one_too_many(
    name: str,
    policy: RemediationPolicySpec,
    status: RemediationPolicyStatus,
    gpu_nodes: int,
    incidents: Iterable[Remediation],
    now: datetime,
) -> str:
    """Empty while incident ``name`` may be fenced; else how many were. What a person has closed over doesn't count."""
    since = counted_since(policy, status, now)
    count, limit = len(fenced_since(incidents, since, but=name)), fence_limit(policy, gpu_nodes)
    nodes = "1 node" if count == 1 else f"{count} nodes"
    return f"{nodes} fenced within {policy.fenced_window_seconds} s, {limit} allowed" if count >= limit else ""


def opened(name: str, why: str, incidents: Iterable[Remediation], now: datetime) -> RemediationPolicyStatus:
    """The status that says so."""
    cause = common_cause(incidents, now)
    message = f"{why}: further nodes are only drained" + (f". {cause}" if cause else "")
    return RemediationPolicyStatus(breaker_open=True, breaker_since=now, tripped_by=name, message=message)


def closed(
    status: RemediationPolicyStatus, who: str, why: str, backlog: Backlog, now: datetime
) -> RemediationPolicyStatus:
    """A person has looked; who and why stay readable."""
    return RemediationPolicyStatus(
        breaker_since=status.breaker_since,
        tripped_by=status.tripped_by,
        closed_at=now,
        closed_by=who,
        closed_why=why,
        backlog=backlog,
    )


def opening_event(status: RemediationPolicyStatus) -> str:
    """The event that tells this opening, and no other one."""
    return EVENT_BREAKER if status.breaker_since is None else f"{EVENT_BREAKER}/{status.breaker_since:%Y%m%dT%H%M%SZ}"


def closing_event(opening: str) -> str:
    return opening.replace(EVENT_BREAKER, EVENT_BREAKER_CLOSED, 1)


def opening_of(closing: str) -> str:
    return closing.replace(EVENT_BREAKER_CLOSED, EVENT_BREAKER, 1)


def untold_ends(incident: Remediation, status: RemediationPolicyStatus) -> dict[str, list[str]]:
    """Who was told by this incident that the breaker is open, and not yet that it is closed: event to routes."""
    outbox, found = incident.status.outbox, dict[str, list[str]]()
    told = {one.event for one in outbox}
    mine = status.breaker_open and status.tripped_by == incident.metadata.name
    for one in outbox:
        if one.recipient or one.event.partition("/")[0] != EVENT_BREAKER or closing_event(one.event) in told:
            continue
        if not mine or one.event not in {EVENT_BREAKER, opening_event(status)}:
            found.setdefault(closing_event(one.event), []).append(one.route)
    return found


def end_words(status: RemediationPolicyStatus) -> str:
    """Who closed it and what becomes of the nodes that were only drained; empty where the status no longer says."""
    if status.breaker_open or status.closed_at is None:
        return ""
    then = "fenced after all" if status.backlog is Backlog.RESUME else "left drained"
    return f"Closed by {status.closed_by}: {status.closed_why}. The nodes that were only drained are {then}."


def common_cause(incidents: Iterable[Remediation], now: datetime) -> str:
    """A hint when many nodes showed the same code within a minute, by our own clock; empty when not."""
    seen: dict[str, dict[str, datetime]] = defaultdict(dict)
    for incident in incidents:
        record = stage_record(incident.status, NodeStage.DETECTED)
        when = record.ended_at if record is not None else None
        if when is not None and now - when < timedelta(hours=1):
            nodes = seen[incident.spec.fault.code]
            nodes[incident.spec.node] = min(when, nodes.get(incident.spec.node, when))
    best, code, spread = 0, "", 0.0
    for one, nodes in seen.items():
        times = sorted(nodes.values())
        for first in times:
            near = [time for time in times if 0 <= (time - first).total_seconds() <= COMMON_SECONDS]
            if len(near) > best:
                best, code, spread = len(near), one, (near[-1] - first).total_seconds()
    if best < COMMON_NODES:
        return ""
    where = "the network or its power" if code in NODE_CODES else "fabric, power, driver, or one job"
    return f"{best} nodes show {code} within {spread:.0f} s: look for one cause ({where}) before you go on"


def struck_after_all(incident: Remediation, status: RemediationPolicyStatus) -> bool:
    """Was the node only drained, and has a person since closed the breaker so that the backlog is taken up?"""
    mine, replacement = incident.status, incident.status.replacement
    if not is_open(incident) or mine.fence is not FenceKind.DRAIN or not ended(mine, NodeStage.FENCED):
        return False
    if status.breaker_open or status.backlog is not Backlog.RESUME or status.closed_at is None:
        return False
    this = mine.drained_under is not None and mine.drained_under == status.breaker_since  # whoever's clock dated it
    before = mine.fence_decided_at is None or mine.fence_decided_at <= status.closed_at
    return (this or before) and replacement.worker_deleted_at is None and not ended(mine, NodeStage.DRAINED)
