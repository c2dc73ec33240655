"""Which nodes are kept from other work after a strike, and until when: survivors, and the one that joins them. Pure.

Slurm starts an expedited job first, but while it saves, or lacks a node, any smaller job may have its other nodes (seen
on 26.05). So they stay behind a reservation of the incident's until the struck jobs can have all of theirs at once. It
ends by itself unless it is renewed: a controller that is away costs the struck job its place, and nobody any node.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from datetime import datetime, timedelta

from sparewheel.api.remediation import FenceKind, JobRecord, Remediation
from sparewheel.remediation.decide.ladder import stays_first
from sparewheel.remediation.decide.observations import Gone, JobView
from sparewheel.remediation.decide.record import is_open
from sparewheel.remediation.decide.treated import on_hold

HOLD_PREFIX = "sparewheel-hold-"
HELD = timedelta(seconds=60)
"""How long a hold lasts when nobody renews it."""
RENEW_SECONDS = 20.0
SLACK = timedelta(seconds=5)
LONGEST = timedelta(seconds=600)
"""Survivors wait no longer than this for a spare that is on its way, or for a node that is mended or given back."""
NO_SPARE = timedelta(seconds=15)
"""And no longer than this where there is none, once the jobs have saved."""

LOOK_SECONDS, CALM_LOOK_SECONDS = 0.1, 0.5
LOOK_SHARE = 0.05
"""Jobs that save are looked at after this share of the time that they saved already: it costs no more than that."""

Seen = tuple[JobRecord, JobView | Gone]

_STRIKES = frozenset({FenceKind.DOWN, FenceKind.REQUEUE})
_OUT_OF_REACH = frozenset({"DOWN", "DRAIN", "FAIL", "NOT_RESPONDING", "COMPLETING", "INVALID_REG", "POWERED_DOWN"})


def hold_name(incident: str) -> str:
    return f"{HOLD_PREFIX}{incident}"


def strikes(remediation: Remediation) -> bool:
    """Will a spare take the node's place, for jobs that start again?"""
    return remediation.status.fence in _STRIKES and not on_hold(remediation)


def survivors_of(remediation: Remediation, nodes_of: Mapping[int, Collection[str]]) -> list[str]:
    """The other Slurm nodes of jobs that come back; ``nodes_of``: where each of the struck jobs ran."""
    comes_back = [job.job_id for job in remediation.status.jobs if not job.not_requeued_reason]
    found = {node for job in comes_back for node in nodes_of.get(job, ())}
    return sorted(found - {remediation.spec.slurm_node or ""})


def held_nodes(remediation: Remediation) -> list[str]:
    """All that stay behind the hold; empty where there is none."""
    kept, record = remediation.status.owned.held_nodes, remediation.status.replacement
    if not kept or record.lifted_at is not None:
        return []
    joins = record.spare_slurm_node or remediation.spec.slurm_node
    return sorted({*kept, *([joins] if joins else ())})


def holds_back(remediation: Remediation) -> bool:
    """Is there anything that jobs may not start on yet for this incident's sake?"""
    record = remediation.status.replacement
    if not is_open(remediation) or record.lifted_at is not None:
        return False
    return bool(remediation.status.owned.held_nodes) or record.spare_slurm_node is not None


def come_back(remediation: Remediation) -> list[JobRecord]:
    """The struck jobs that start again; also those that had, once the spare that had joined them was struck."""
    again = remediation.status.replacement.struck_again_at is not None
    jobs = (job for job in remediation.status.jobs if not job.not_requeued_reason)
    return [job for job in jobs if not job.closed or (again and job.resumed_at is not None)]


def struck(remediation: Remediation) -> datetime | None:
    """The last strike, from which the jobs have their grace: the node's, or that of a spare which had joined them."""
    status = remediation.status
    return status.replacement.struck_again_at or status.owned.slurm_struck_at


def jobs_ready(remediation: Remediation, jobs: Iterable[Seen], now: datetime) -> bool:
    """Does each struck job that comes back wait for nothing but nodes, or is it back, or its grace over?"""
    struck_at = struck(remediation)
    if struck_at is not None and now > struck_at + timedelta(seconds=remediation.spec.grace_seconds) + SLACK:
        return True
    if remediation.status.fence not in _STRIKES:
        return True
    return all(not _waits(job, view) or _ready(job, view) for job, view in jobs)


def lift_due(remediation: Remediation, jobs: Iterable[Seen], now: datetime, *, room: bool) -> bool:
    """May jobs start on what is held? ``room``: other nodes are free, so the struck jobs need not wait for a spare."""
    seen = list(jobs)
    if not jobs_ready(remediation, seen, now):
        return False
    status = remediation.status
    record, struck_at = status.replacement, struck(remediation)
    never = status.fence not in _STRIKES or bool(status.owned.foreign_reason)
    if _joined(remediation) or room or never or struck_at is None or not any(_waits(job, view) for job, view in seen):
        return True
    on_its_way = record.spare_host is not None or stays_first(remediation) or bool(status.cancelled_by)
    return now - struck_at > (LONGEST if on_its_way else NO_SPARE)


def look_again_seconds(remediation: Remediation, now: datetime, *, ready: bool) -> float:
    """Often only while the saving of the jobs is all that keeps them from a node that stands by."""
    struck_at = struck(remediation)
    if ready or not _joined(remediation) or struck_at is None:
        return CALM_LOOK_SECONDS
    waited = (now - struck_at).total_seconds()
    return min(CALM_LOOK_SECONDS, max(LOOK_SECONDS, waited * LOOK_SHARE))


def _joined(remediation: Remediation) -> bool:
    """Is there a Slurm node that can take the struck one's place?"""
    record = remediation.status.replacement
    return record.spare_slurm_node is not None or record.slurm_restored_at is not None


def room(states: Iterable[frozenset[str]], lacking: int) -> bool:
    """``states``: of the nodes of a job's partition that no reservation keeps. Are at least so many free?"""
    return sum("IDLE" in one and not one & _OUT_OF_REACH for one in states) >= lacking


def waiting(jobs: Iterable[Seen]) -> list[JobRecord]:
    return [job for job, view in jobs if _waits(job, view)]


def _waits(job: JobRecord, view: JobView | Gone) -> bool:
    if isinstance(view, Gone):
        return False
    if view.pending:
        return True
    return view.restart_count <= job.attempt_before and (not view.ended or job.crashed_by_itself)


def _ready(job: JobRecord, view: JobView | Gone) -> bool:
    """Pending for want of nodes alone, and ahead of the others: by Slurm's own rule, or once it was given priority."""
    if isinstance(view, Gone) or not view.pending or view.held or "COMPLETING" in view.states:
        return False
    return job.expedited or (job.requeued_at is not None and view.state_reason.lower() != "begintime")
