"""A job that ended by itself and is held for it: its user is told what to do, and what else was seen about then.

Slurm requeues an expedited job that ends non-zero and holds it (seen on 26.05); without a word it would wait for ever.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime

from sparewheel.api.faults import Action, Fault
from sparewheel.api.remediation import FenceKind, Remediation
from sparewheel.remediation.decide.observations import JobView
from sparewheel.remediation.decide.policy import HEALING
from sparewheel.remediation.decide.record import is_open
from sparewheel.remediation.decide.sentences import cause_words, fault_words
from sparewheel.remediation.decide.treated import faults_of

MARGIN_SECONDS = 15.0
"""On top of the time in which a fault may still claim the job: until the fault is seen and its incident lists jobs."""
HELD_FOR_ITS_END = "jobhelduser"
"""A hold by ``scontrol requeuehold`` gives another reason."""
JUDGED = frozenset({FenceKind.DOWN, FenceKind.REQUEUE, FenceKind.DRAIN, FenceKind.JOBS})
"""Such an incident asked Slurm for the jobs that its fault may have ended: one that it did not list is not its own."""


@dataclass(frozen=True, slots=True)
class OwnEnd:
    """An attempt that ended by itself. A fault from ``since`` to ``until`` may be to blame for it."""

    job_id: int
    nodes: frozenset[str]
    """Slurm nodes that it ran on; empty where that is not known, and then it may have been any."""
    hosts: frozenset[str]
    """The Nodes of these."""
    since: datetime
    until: datetime


def ended_by_itself(job: JobView) -> bool:
    """Requeued and held by Slurm because its last attempt ended non-zero."""
    held = job.held_by_requeue and job.state_reason.lower() == HELD_FOR_ITS_END
    return held and job.batch and job.expedited and job.restart_count > 0 and job.ended_badly


def claimable(end: OwnEnd, incidents: Iterable[Remediation]) -> bool:
    """Does an incident follow the job, or may an open one still come to list it? Only then nothing is said yet."""
    return any(
        any(job.job_id == end.job_id and not job.closed for job in incident.status.jobs)
        or (is_open(incident) and _on_its_nodes(end, incident))
        for incident in incidents
    )


def doubts(end: OwnEnd, incidents: Iterable[Remediation], faults: Mapping[str, Sequence[Fault]]) -> str:
    """What failed on the job's nodes about then without anybody judging whether it ended the job; empty: nothing.

    That is so for a dry run, an incident that was called off before its fence, or a pool that is paused. ``faults``:
    what each Node reports now.
    """
    known = list(incidents)
    for incident in known:
        if not _judged(incident) and _on_its_nodes(end, incident) and _about_then(end, incident):
            return cause_words(incident)
    suspects = [
        (node, fault)
        for node, reported in faults.items()
        if node in end.hosts or not end.hosts
        for fault in reported
        if _may_end_jobs(end, fault)
    ]
    for node, fault in suspects:
        of_node = [one for one in known if one.spec.node == node and _judged(one)]
        if not any(_key(fault) == _key(other) for one in of_node for other in faults_of(one)):
            return f"node {node} failed: {fault_words(fault)}"
    return ""


def own_end_sentence(job: JobView, doubt: str = "") -> str:
    """``doubt``: as ``doubts`` has it."""
    end = f"{_told(job)} with {exit_words(job)}"
    if doubt:
        return (
            f"{end}; about then {doubt}. Whether that ended it was not judged: look at its output, then start it again "
            f"with scontrol release {job.job_id}"
        )
    return (
        f"{end}; that is the job's own, nothing of the platform failed. "
        f"Release it with scontrol release {job.job_id} or submit it again"
    )


def is_told(job: JobView) -> bool:
    """Its comment has it already; another controller, which saw the hold later, has nothing to add."""
    return _told(job) in job.comment


def _told(job: JobView) -> str:
    return f"attempt {job.restart_count - 1} ended by itself"


def exit_words(job: JobView) -> str:
    """``exit code 3`` or ``signal 9``."""
    return f"exit code {job.exit_code}" if job.exit_code else f"signal {job.exit_signal}"


def _on_its_nodes(end: OwnEnd, incident: Remediation) -> bool:
    return not end.nodes or incident.spec.slurm_node in end.nodes


def _about_then(end: OwnEnd, incident: Remediation) -> bool:
    """By the node's clock or by the API server's, since a node's may be wrong."""
    seen = incident.spec.fault.first_seen
    made = incident.metadata.creation_timestamp or seen
    return max(seen, made) >= end.since and min(seen, made) <= end.until


def _judged(incident: Remediation) -> bool:
    return incident.status.fence in JUDGED and incident.status.jobs_listed_at is not None


def _key(fault: Fault) -> tuple[str, str]:
    return fault.code, fault.device


def _may_end_jobs(end: OwnEnd, fault: Fault) -> bool:
    """It asks for its node and came about then, or it hits jobs and was seen then."""
    times = [fault.first_seen] if fault.action in HEALING else []
    if fault.action is Action.RESTART_JOB:
        times = [fault.last_seen, *(sighting.time for sighting in fault.recent)]
    return any(end.since <= time <= end.until for time in times)
