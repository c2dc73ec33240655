"""The job track: which jobs the strike hits, what becomes of each, and what is left for the controller to do."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from enum import StrEnum

from sparewheel.api.remediation import FenceKind, JobRecord, Outcome, Remediation
from sparewheel.remediation.decide.observations import Gone, JobView
from sparewheel.remediation.decide.own_end import exit_words
from sparewheel.remediation.decide.progress import read_progress
from sparewheel.remediation.decide.sentences import job_sentence
from sparewheel.remediation.decide.treated import faults_of

ASK_AGAIN_SECONDS = 5.0
"""A requeue that was journalled and has had no effect for this long is asked again."""
AFTER_GRACE_SECONDS = 30.0
"""A job that fails within the grace and this much more is the strike's victim."""


class JobAction(StrEnum):
    REQUEUE = "requeue"
    RELEASE = "release"
    PRIORITISE = "prioritise"


@dataclass(frozen=True, slots=True)
class Followed:
    """``intent`` is journalled before the actions, ``record`` after them."""

    intent: JobRecord
    actions: tuple[JobAction, ...]
    record: JobRecord
    look_again_seconds: float


def victims(
    jobs: Iterable[JobView],
    slurm_node: str,
    remembered: Mapping[int, frozenset[str]],
    fault_seen: datetime,
    window_seconds: float,
    places: Mapping[str, str],
) -> list[JobRecord]:
    """Records of the jobs that run on the node, and of those that the fault ended before the fence. Slurm ends and
    requeues a heterogeneous job as a whole (seen on 26.05), so its other parts are struck too.

    ``remembered``: jobs seen alive on the node shortly before, and where else they ran. An expedited job that failed
    by itself was requeued by Slurm (held, or at once where an Epilog failed): it has left the node, and is known only
    so; where else it ran may not be known. ``places``: Slurm node name to Node, for people to read.
    """
    since = fault_seen - timedelta(seconds=window_seconds)
    found: list[JobRecord] = []
    known = list(jobs)
    for job in known:
        on_node = slurm_node in job.nodes
        if on_node and _runs(job):
            found.append(_record(job, crashed=False, attempt=job.restart_count, stopped=None))
        elif on_node and _failed(job) and job.end_time is not None and since <= job.end_time:
            found.append(_record(job, crashed=True, attempt=job.restart_count, stopped=job.end_time))
        elif job.job_id in remembered and job.restart_count > 0 and _left_again(job, on_node=on_node, since=since):
            nodes = remembered[job.job_id] or frozenset({slurm_node})
            before = replace(job, nodes=nodes, hosts=tuple(sorted(places.get(node, node) for node in nodes)))
            stopped = _requeued_between(job, since, fault_seen) or fault_seen
            found.append(_record(before, crashed=True, attempt=job.restart_count - 1, stopped=stopped))
    running = {job.job_id for job in found if not job.crashed_by_itself}
    whole = {job.het_job_id for job in known if job.het_job_id is not None and job.job_id in running}
    parts = [job for job in known if job.het_job_id in whole and job.job_id not in running]
    found += [_record(job, crashed=False, attempt=job.restart_count, stopped=None) for job in parts if _runs(job)]
    return found


def _runs(job: JobView) -> bool:
    return job.running and not job.pending


def only_hit(found: list[JobRecord], remediation: Remediation) -> list[JobRecord]:
    """Where the node stays in service, only the jobs that the fault hit; all of them where that is not known."""
    if remediation.status.fence is not FenceKind.JOBS:
        return found
    latest = [max(fault.recent, key=lambda seen: seen.time) for fault in faults_of(remediation) if fault.recent]
    hit = {sighting.job_id for sighting in latest}
    if not hit or None in hit:
        return found
    return [job for job in found if job.job_id in hit]


def _left_again(job: JobView, *, on_node: bool, since: datetime) -> bool:
    """Requeued by Slurm itself: pending, or running elsewhere already."""
    if job.pending:
        return True
    return not on_node and "RUNNING" in job.states and job.start_time is not None and job.start_time >= since


def _requeued_between(job: JobView, since: datetime, until: datetime) -> datetime | None:
    """Slurm requeues a job when it ends by itself, and says when, in whole seconds."""
    at = job.submit_time if job.pending else None
    return at if at is not None and since <= at < until else None


def _failed(job: JobView) -> bool:
    """Ended non-zero, and not because its user said so."""
    if not job.ended or "CANCELLED" in job.states:
        return False
    return "NODE_FAIL" in job.states or ("FAILED" in job.states and (job.exit_code is None or job.ended_badly))


def _record(job: JobView, *, crashed: bool, attempt: int, stopped: datetime | None) -> JobRecord:
    return JobRecord(
        job_id=job.job_id,
        user=job.user,
        job_name=job.name,
        partition=job.partition,
        batch=job.batch,
        expedited=job.expedited,
        attempt_before=attempt,
        hosts_before=list(job.hosts) or sorted(job.nodes),
        stopping_at=stopped,
        not_requeued_reason=why_not(job, crashed=crashed),
        crashed_by_itself=crashed,
        ended_with=exit_words(job) if crashed and job.ended_badly else "",
    )


def why_not(job: JobView, *, crashed: bool) -> str:
    """Why this job does not come back by itself; empty when it does."""
    if not job.batch:
        return "it was started by srun or salloc without a batch script, and Slurm cannot start such a job again"
    if not job.requeue:
        return "it was submitted with --no-requeue"
    if job.array and crashed:
        return "it is a task of a job array and had ended by itself, and a task alone is not requeued"
    if job.het_job_id is not None and crashed:
        return "it is part of a heterogeneous job and had ended by itself, and a part alone is not requeued"
    return ""


def struck(record: JobRecord, now: datetime) -> JobRecord:
    """The strike reached the job: its processes are told to end. One that another incident struck before is back."""
    known = record.stopping_at or record.requeued_at
    return record if known else record.model_copy(update={"stopping_at": now})


def follow(remediation: Remediation, record: JobRecord, view: JobView | Gone, now: datetime) -> Followed:
    """One look at one job after the strike."""
    if isinstance(view, Gone):
        return _closed(remediation, record, "", lost="Slurm no longer knows it")
    if "CANCELLED" in view.states and view.ended:
        return _closed(remediation, record, "it was cancelled")
    if view.pending and "COMPLETING" in view.states and not view.held:
        return Followed(record, (), record, 0.5)  # requeued, but its survivors still save
    if view.pending:
        return _pending(remediation, record, view, now)
    again = view.restart_count > record.attempt_before
    if view.ended:
        return _ended(remediation, record, view, now, again=again)
    if again:
        return _running_again(remediation, record, view, now)
    return _stopping(remediation, record, now)


def _stopping(remediation: Remediation, record: JobRecord, now: datetime) -> Followed:
    status = remediation.status
    if status.outcome is Outcome.CANCELLED and status.fence is FenceKind.DRAIN:  # never told to end: it runs on
        return Followed(record, (), record.model_copy(update={"closed": True}), 0.0)
    asks = status.fence in {FenceKind.REQUEUE, FenceKind.JOBS} and not record.not_requeued_reason
    if asks and _may_ask(record, now):
        intent = record.model_copy(update={"requeue_asked_at": now})
        return Followed(intent, (JobAction.REQUEUE,), intent, 1.0)
    return Followed(record, (), record, 5.0 if status.fence is FenceKind.DRAIN else 1.0)


def still_to_requeue(record: JobRecord, view: JobView) -> bool:
    """Asked right before the requeue, which ends whatever runs: the job may be back by now, as a part of another one
    that was requeued just before (heterogeneous), or by its user's word.
    """
    return not view.pending and view.restart_count <= record.attempt_before


def _may_ask(record: JobRecord, now: datetime) -> bool:
    return record.requeue_asked_at is None or now - record.requeue_asked_at >= timedelta(seconds=ASK_AGAIN_SECONDS)


def _pending(remediation: Remediation, record: JobRecord, view: JobView, now: datetime) -> Followed:
    if view.held and _slurm_holds_it(remediation, record, view, now):
        if not _may_ask(record, now):
            return Followed(record, (), record, 1.0)
        update = {"requeue_asked_at": now, "crashed_by_itself": True}
        intent = record.model_copy(update=update)
        return Followed(intent, (JobAction.RELEASE, JobAction.PRIORITISE), intent, 1.0)
    first = record.requeued_at is None
    reason = _why_held(record, view) if view.held else ""
    update = {"requeued_at": record.requeued_at or now, "not_requeued_reason": reason}
    new = record.model_copy(update=update)
    new.message = job_sentence(remediation, new)
    actions = (JobAction.PRIORITISE,) if first and not record.expedited and not view.held else ()
    return Followed(record, actions, new, _pending_pace(new, now))


def _slurm_holds_it(remediation: Remediation, record: JobRecord, view: JobView, now: datetime) -> bool:
    """Held because it ended by itself in this incident. Once it is back, a hold is its user's, or the job's own end."""
    if record.requeued_at is not None or view.restart_count > record.attempt_before + 1:
        return False
    if record.crashed_by_itself or record.requeue_asked_at is not None:
        return True
    # It ran when it was listed, and ended before the strike reached it.
    ended = view.held_by_requeue and view.ended_badly and view.restart_count > record.attempt_before
    return ended and _within_strike(remediation, record, view, now)


def _why_held(record: JobRecord, view: JobView) -> str:
    if view.held_by_requeue and view.ended_badly and view.restart_count > record.attempt_before + 1:
        end = f"attempt {view.restart_count - 1} ended by itself with {exit_words(view)}"
        return f"{end}, and Slurm holds it until what it runs is mended"
    return f"it is held ({view.state_reason or 'by its user or an administrator'})"


def _pending_pace(record: JobRecord, now: datetime) -> float:
    waited = (now - (record.requeued_at or now)).total_seconds()
    return 1.0 if waited < 120 else 5.0 if waited < 900 else 30.0


def _running_again(remediation: Remediation, record: JobRecord, view: JobView, now: datetime) -> Followed:
    new = _with_start(record, view, now)
    new = _with_progress(new, view)
    new.message = job_sentence(remediation, new)
    waited = (now - (new.started_at or now)).total_seconds()
    return Followed(record, (), new, 1.0 if waited < 600 else 10.0)


def _with_start(record: JobRecord, view: JobView, now: datetime) -> JobRecord:
    """Slurm's own start time (whole seconds) where it is plausible, never before the requeue."""
    floor = record.requeued_at or record.stopping_at
    start = view.start_time if view.start_time is not None and view.start_time <= now else now
    if floor is not None and start < floor:
        start = floor
    return record.model_copy(
        update={
            "requeued_at": record.requeued_at or start,
            "started_at": record.started_at or start,
            "attempt_after": view.restart_count,
            "hosts_after": list(view.hosts) or sorted(view.nodes) or record.hosts_after,
            "not_requeued_reason": "",
        }
    )


def _with_progress(record: JobRecord, view: JobView) -> JobRecord:
    progress = read_progress(view.extra)
    if progress is None or progress.attempt <= record.attempt_before or record.resumed_at is not None:
        return record
    floor = record.started_at or progress.first_step_time
    return record.model_copy(
        update={
            "resumed_at": max(progress.first_step_time, floor),
            "resumed_from_step": progress.resumed_from_step,
            "first_step": progress.first_step,
            "closed": True,
        }
    )


def _ended(remediation: Remediation, record: JobRecord, view: JobView, now: datetime, *, again: bool) -> Followed:
    state = "/".join(sorted(view.states)) or "ended"
    if again:
        new = _with_progress(_with_start(record, view, now), view)
        return _closed(remediation, new, f"attempt {view.restart_count} ended {state}")
    if "COMPLETED" in view.states:
        return _closed(remediation, record, "it had completed")
    if record.not_requeued_reason or not _failed(view) or not _within_strike(remediation, record, view, now):
        reason = record.not_requeued_reason or f"it ended {state}"
        return _closed(remediation, record, "", lost=reason)
    if not _may_ask(record, now):
        return Followed(record, (), record, 1.0)
    stopping = record.stopping_at or view.end_time or now
    intent = record.model_copy(update={"crashed_by_itself": True, "stopping_at": stopping, "requeue_asked_at": now})
    return Followed(intent, (JobAction.REQUEUE,), intent, 1.0)


def _within_strike(remediation: Remediation, record: JobRecord, view: JobView, now: datetime) -> bool:
    if record.crashed_by_itself:
        return True
    status = remediation.status
    again = status.replacement.struck_again_at if record.strike > 1 else None
    strike = again or status.owned.slurm_struck_at
    if strike is None:
        return True
    limit = strike + timedelta(seconds=remediation.spec.grace_seconds + AFTER_GRACE_SECONDS)
    return (view.end_time or now) <= limit


def _closed(remediation: Remediation, record: JobRecord, ending: str, lost: str = "") -> Followed:
    """``lost``: why it does not come back although its user may still want it."""
    new = record.model_copy(update={"closed": True})
    if lost and new.resumed_at is None:
        new.not_requeued_reason = new.not_requeued_reason or lost
    new.message = job_sentence(remediation, new, ending=ending)
    return Followed(record, (), new, 0.0)
