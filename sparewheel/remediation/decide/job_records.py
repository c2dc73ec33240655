"""The journal of the struck jobs: listed once, and what is set stays until they are struck again. Pure."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime

from sparewheel.api.remediation import JobRecord, RemediationStatus
from sparewheel.remediation.decide.record import Change, copy


def list_jobs(jobs: Iterable[JobRecord], now: datetime) -> Change:
    """Add jobs not yet known; what is recorded about a job stays."""

    def change(status: RemediationStatus) -> RemediationStatus:
        new = copy(status)
        known = {job.job_id for job in new.jobs}
        new.jobs.extend(job for job in jobs if job.job_id not in known)
        new.jobs_listed_at = new.jobs_listed_at or now
        return new

    return change


def started_on(job: JobRecord, node: str, since: datetime) -> bool:
    """Did the struck job start again there, from then on?"""
    return node in job.hosts_after and job.started_at is not None and job.started_at >= since


def struck_again(found: Iterable[JobRecord], now: datetime) -> Change:
    """The spare on which these jobs run is struck: their story begins anew, also where it was closed.

    ``found``: as a strike lists them. A job whose present attempt is known to be struck stays as it is.
    """

    def change(status: RemediationStatus) -> RemediationStatus:
        new = copy(status)
        known = {job.job_id: job for job in new.jobs}
        for job in found:
            before = known.get(job.job_id)
            anew: dict[str, object] = {
                "stopping_at": job.stopping_at or now,
                "strike": before.strike + 1 if before else 2,
            }
            if before is None:
                new.jobs.append(job.model_copy(update=anew))
            elif before.attempt_before < job.attempt_before:
                if job.crashed_by_itself and before.hosts_after:  # it has left them: Slurm can't say
                    anew["hosts_before"] = before.hosts_after
                new.jobs[new.jobs.index(before)] = job.model_copy(update=anew)
        return new

    return change


def put_job(job: JobRecord) -> Change:
    """Put a newer record of a job; a closed record and times already set stay as they are."""

    def change(status: RemediationStatus) -> RemediationStatus:
        new = copy(status)
        new.jobs = [_merged(old, job) if old.job_id == job.job_id else old for old in new.jobs]
        return new

    return change


def put_and_tell(job: JobRecord, news: Change) -> Change:
    """Put a record that closes the job's story, and what is told of that; neither where it was struck again since."""
    put = put_job(job)

    def change(status: RemediationStatus) -> RemediationStatus:
        new = put(status)
        known = [one for one in new.jobs if one.job_id == job.job_id and one.strike == job.strike]
        return news(new) if known else new

    return change


_JOB_TIMES = ("stopping_at", "requeued_at", "started_at", "resumed_at")


def _merged(old: JobRecord, new: JobRecord) -> JobRecord:
    if old.closed or old.strike > new.strike:
        return old
    kept = {name: getattr(old, name) for name in _JOB_TIMES if getattr(old, name) is not None}
    return new.model_copy(update=kept, deep=True)
