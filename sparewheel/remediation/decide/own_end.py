"""A job that ended by itself and is held for it: nothing of the platform failed, and its user is told what to do.

Slurm requeues an expedited job that ends non-zero and holds it (seen on 26.05); without a word it would wait for ever.
"""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime

from sparewheel.api.faults import Action, Fault
from sparewheel.api.remediation import Remediation
from sparewheel.remediation.decide.observations import JobView
from sparewheel.remediation.decide.policy import HEALING
from sparewheel.remediation.decide.record import is_open

MARGIN_SECONDS = 15.0
"""On top of the time in which a fault may still claim the job: until the fault is seen and its incident lists jobs."""
HELD_FOR_ITS_END = "jobhelduser"
"""A hold by ``scontrol requeuehold`` gives another reason."""


def ended_by_itself(job: JobView) -> bool:
    """Requeued and held by Slurm because its last attempt ended non-zero."""
    held = job.held_by_requeue and job.state_reason.lower() == HELD_FOR_ITS_END
    return held and job.batch and job.expedited and job.restart_count > 0 and job.ended_badly


def touched(job_id: int, nodes: frozenset[str], incidents: Iterable[Remediation], since: datetime) -> bool:
    """May an incident have to do with the job's end? ``nodes``: Slurm nodes that it ran on, empty where not known.

    ``since``: an incident from then on counts, also one that is closed by now or was a dry run.
    """
    for incident in incidents:
        if any(job.job_id == job_id and not job.closed for job in incident.status.jobs):
            return True
        counts = is_open(incident) or _began(incident) >= since
        if counts and (not nodes or incident.spec.slurm_node in nodes):
            return True
    return False


def _began(incident: Remediation) -> datetime:
    """By the node's clock or by the API server's, whichever is later: a node's may be wrong."""
    seen, made = incident.spec.fault.first_seen, incident.metadata.creation_timestamp
    return seen if made is None else max(seen, made)


def unhandled(faults: Iterable[Fault], since: datetime) -> bool:
    """A fault that asks for a node came about then, perhaps in a paused pool, where nothing is made of it."""
    return any(
        (fault.action in HEALING and fault.first_seen >= since)
        or (fault.action is Action.RESTART_JOB and fault.last_seen >= since)
        for fault in faults
    )


def own_end_sentence(job: JobView) -> str:
    how = f"exit code {job.exit_code}" if job.exit_code else f"signal {job.exit_signal}"
    return (
        f"attempt {job.restart_count - 1} ended by itself with {how}; that is the job's own, nothing of the platform "
        f"failed. Release it with scontrol release {job.job_id} or submit it again"
    )
