"""The job track: looks at each struck job until it goes on or ends, beside the node track, and tells its user why."""

from __future__ import annotations

from collections.abc import Container, Iterable

from sparewheel.api.remediation import JobRecord, NodeStage
from sparewheel.remediation.decide.deliveries import enqueue
from sparewheel.remediation.decide.events import job_event
from sparewheel.remediation.decide.job_records import put_and_tell, put_job
from sparewheel.remediation.decide.jobs import Followed, JobAction, follow, still_to_requeue
from sparewheel.remediation.decide.observations import Gone, JobView
from sparewheel.remediation.decide.record import ended
from sparewheel.remediation.decide.sentences import needs_action, with_comment
from sparewheel.remediation.stages.incident import Incident, log
from sparewheel.remediation.stages.views import job_view
from sparewheel.slurm.port import SlurmError, SlurmJob, SlurmNotFoundError, SlurmUnavailableError

TOP_PRIORITY = 4_000_000_000
"""Ahead of the queue: below Slurm's largest (2^32 - 3), above anything a priority plugin computes."""
MANY_JOBS = 5
"""More open jobs than this are read in one request."""


def open_jobs(incident: Incident) -> list[JobRecord]:
    return [job for job in incident.record.status.jobs if not job.closed]


async def precondition(incident: Incident) -> str:
    """Empty when the jobs may be looked at: not before the strike, or a job could be requeued onto the bad node."""
    return "" if ended(incident.record.status, NodeStage.FENCED) else "the node is not fenced yet"


async def is_done(incident: Incident) -> bool:
    return not open_jobs(incident) and ended(incident.record.status, NodeStage.FENCED)


async def act(incident: Incident) -> float:
    """One look at every open job; seconds until the next look is due."""
    jobs = open_jobs(incident)
    views = await see(incident, jobs)
    pauses: list[float] = []
    for job in jobs:
        followed = follow(incident.record, job, views.get(job.job_id, Gone()), incident.now())
        await _apply(incident, job.job_id, followed, views.get(job.job_id))
        if not followed.record.closed:
            pauses.append(followed.look_again_seconds)
    return min(pauses, default=0.0)


def near(listed: Iterable[SlurmJob], slurm_node: str, remembered: Container[int]) -> list[SlurmJob]:
    """Of all that Slurm has, those that a strike on the node may be about: on it, remembered there, and the other parts
    of such a heterogeneous job."""
    known = list(listed)
    found = [job for job in known if slurm_node in job.nodes or job.job_id in remembered]
    whole, ids = {job.het_job_id for job in found} - {None}, {job.job_id for job in found}
    return found + [job for job in known if job.het_job_id in whole and job.job_id not in ids]


async def see(incident: Incident, jobs: list[JobRecord]) -> dict[int, JobView]:
    """Jobs that Slurm knows. A failed look-up raises: it is never read as gone."""
    if not jobs:
        return {}
    slurm, shared = incident.ports.slurm, incident.crowded()
    places = incident.places()
    if len(jobs) > MANY_JOBS or shared:
        wanted = {job.job_id for job in jobs}
        listed = await (incident.ports.looks.jobs() if shared else slurm.jobs())
        return {job.job_id: job_view(job, places) for job in listed if job.job_id in wanted}
    found: dict[int, JobView] = {}
    for job in jobs:
        try:
            found[job.job_id] = job_view(await slurm.job(job.job_id), places)
        except SlurmNotFoundError:
            continue
    return found


async def _apply(incident: Incident, job_id: int, followed: Followed, view: JobView | None) -> None:
    await incident.update(put_job(followed.intent))
    for action in followed.actions:
        incident.lead()
        await _do(incident, followed.intent, action)
    if view is not None and followed.record.message:
        await _comment(incident, job_id, view, followed.record.message)
    change = put_job(followed.record)
    if followed.record.closed and (followed.record.resumed_at is not None or needs_action(followed.record)):
        event = job_event(job_id, followed.record.strike)
        routes = await incident.routes(event, action_needed=needs_action(followed.record))
        change = put_and_tell(followed.record, enqueue(incident.name, event, routes, incident.now()))
    await incident.update(change)  # last, and in one write: after it nobody looks at a closed job again


async def _do(incident: Incident, job: JobRecord, action: JobAction) -> None:
    slurm, job_id = incident.ports.slurm, job.job_id
    try:
        match action:
            case JobAction.REQUEUE:
                if still_to_requeue(job, job_view(await slurm.job(job_id))):
                    await slurm.requeue(job_id)
            case JobAction.RELEASE:
                await slurm.update_job(job_id, hold=False)
            case JobAction.PRIORITISE:
                await slurm.update_job(job_id, priority=TOP_PRIORITY)
    except SlurmUnavailableError:
        raise
    except SlurmError as error:
        log.warning("%s: %s of job %d refused: %s", incident.name, action.value, job_id, error)


async def _comment(incident: Incident, job_id: int, view: JobView, sentence: str) -> None:
    """The sentence in the job's comment. It is for people: a refusal is logged and holds nothing up."""
    wanted = with_comment(view.comment, sentence)
    if wanted == view.comment:
        return
    incident.lead()
    try:
        await incident.ports.slurm.update_job(job_id, comment=wanted)
    except SlurmError as error:
        log.info("%s: comment of job %d not written: %s", incident.name, job_id, error)
