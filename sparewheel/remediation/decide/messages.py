"""What one message says: of one incident, to the owner of its jobs, or of many incidents at once. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Final

from sparewheel.api.enums import Severity
from sparewheel.api.remediation import Delivery, JobRecord, Remediation
from sparewheel.remediation.decide.events import (
    EVENT_BREAKER,
    EVENT_BREAKER_CLOSED,
    EVENT_CLOSED,
    EVENT_DETECTED,
    EVENT_JOB,
    EVENT_WAITING,
    event_name,
    job_of,
    jobs_of,
)
from sparewheel.remediation.decide.sentences import event_body, job_sentence, needs_action, runs_on

MAX_NAMED = 100
"""Incidents that one message names; of the rest it tells the count."""
MAX_JOBS = 200
_SHOWN_NODES: Final = 3
_GRAVITY: Final = {severity: rank for rank, severity in enumerate(Severity)}


@dataclass(frozen=True, slots=True)
class Told:
    """A message in an outbox, with the record that it is in."""

    record: Remediation
    delivery: Delivery


def message(told: Sequence[Told], alert: str, unread: int = 0) -> dict[str, Any]:
    """The body of the message that tells ``told``; the first of them leads.

    ``alert``: what a pager knows the trouble by. ``unread``: incidents that belong to it and whose record is gone.
    """
    bodies = [_one(each) for each in told]
    whole = bodies[0] if len(bodies) == 1 and not unread else _summary(told, bodies, unread)
    first = told[0].delivery
    incidents = list({each.record.metadata.name: each for each in told}.values())
    return {
        **whole,
        "count": len(told) + unread,
        "incidents": [_named(each) for each in incidents[:MAX_NAMED]],
        "moreIncidents": len(incidents[MAX_NAMED:]) + unread,
        "alert": alert,
        "owner": first.recipient,
        "note": first.note,
    }


def owner_jobs(record: Remediation, event: str, user: str) -> list[JobRecord]:
    """The user's jobs that the event is about."""
    return [job for job in jobs_of(record, event) if job.user == user]


def _named(told: Told) -> dict[str, Any]:
    spec, status = told.record.spec, told.record.status
    return {
        "remediation": told.record.metadata.name,
        "node": spec.node,
        "pool": spec.pool,
        "code": spec.fault.code,
        "outcome": status.outcome.value,
    }


def _one(told: Told) -> dict[str, Any]:
    body = event_body(told.record, told.delivery.event, told.delivery.created_at)
    if not told.delivery.recipient:
        return body
    jobs = owner_jobs(told.record, told.delivery.event, told.delivery.recipient)
    mine = {job.job_id for job in jobs}
    body["jobs"] = [job for job in body["jobs"] if job["jobId"] in mine]
    acting = [job for job in jobs if needs_action(job) or runs_on(told.record, job)]
    body["actionNeeded"] = bool(acting)
    if event_name(told.delivery.event) == EVENT_DETECTED:
        body["title"] = _owner_title(told.record, jobs, acting)
        body["text"] = " ".join(f"Job {job.job_id}: {job.message or job_sentence(told.record, job)}" for job in jobs)
    return body


def _owner_title(record: Remediation, jobs: Sequence[JobRecord], acting: Sequence[JobRecord]) -> str:
    prefix = "Dry run: " if record.spec.dry_run else "Drill: " if record.spec.fault.drill else ""
    if len(jobs) == 1:
        name = f" ({jobs[0].job_name})" if jobs[0].job_name else ""
        subject = f"Job {jobs[0].job_id}{name}"
    else:
        subject = f"{len(jobs)} of your jobs"
    verb = "was" if len(jobs) == 1 else "were"
    ask = "action needed" if acting else "no action needed"
    return f"{prefix}{subject} {verb} hit by {record.spec.fault.code} on {record.spec.node}, {ask}"


# -------------------------------------------------------------------- many at once
def _summary(told: Sequence[Told], bodies: Sequence[dict[str, Any]], unread: int) -> dict[str, Any]:
    jobs = _once(job for body in bodies for job in body["jobs"])
    count = len(told) + unread
    drill = all(body["drill"] for body in bodies)
    dry_run = all(body["dryRun"] for body in bodies)
    prefix = "Dry run: " if dry_run else "Drill: " if drill else ""
    acting = sum(1 for body in bodies if body["actionNeeded"])
    ask = f"{acting} of them need somebody to act." if acting else "None of them needs anybody to act."
    return {
        **bodies[0],
        "title": f"{prefix}{_headline(told, count)}",
        "text": f"{_headline(told, count)}. {ask} {_names(told, unread)}",
        "severity": max((Severity(body["severity"]) for body in bodies), key=_GRAVITY.__getitem__).value,
        "jobs": jobs[:MAX_JOBS],
        "moreJobs": len(jobs[MAX_JOBS:]),
        "actionNeeded": bool(acting),
        "drill": drill,
        "dryRun": dry_run,
    }


def _once(jobs: Iterable[dict[str, Any]]) -> list[dict[str, Any]]:
    """A job hit on several nodes is told once for each thing that is to say of it."""
    found: dict[tuple[int, str], dict[str, Any]] = {}
    for job in jobs:
        found.setdefault((job["jobId"], job["what"]), job)
    return list(found.values())


def _headline(told: Sequence[Told], count: int) -> str:
    name = event_name(told[0].delivery.event)
    if name == EVENT_DETECTED:
        nodes = list(dict.fromkeys(each.record.spec.node for each in told))
        more = f" and {count - _SHOWN_NODES} more" if count > _SHOWN_NODES else ""
        return f"{_tally(each.record.spec.fault.code for each in told)} on {', '.join(nodes[:_SHOWN_NODES])}{more}"
    if name == EVENT_WAITING:
        return f"{count} healings wait"
    if name == EVENT_CLOSED:
        return f"{count} incidents ended: {_tally(each.record.status.outcome.value.lower() for each in told)}"
    if name == EVENT_JOB:
        ids = list(dict.fromkeys(job_of(each.delivery.event) for each in told))
        return f"News of {count} jobs: {', '.join(ids[:_SHOWN_NODES])}{' ...' if len(ids) > _SHOWN_NODES else ''}"
    if name == EVENT_BREAKER:
        return f"The breaker is open: {count} times"
    if name == EVENT_BREAKER_CLOSED:
        return f"The breaker is closed: {count} times"
    return f"{count} messages"


def _tally(words: Iterable[str]) -> str:
    """``180 x XID 79, 19 x NODE_LOST``; the commonest first."""
    return ", ".join(f"{count} x {word}" for word, count in Counter(words).most_common(5))


def _names(told: Sequence[Told], unread: int) -> str:
    names = list(dict.fromkeys(each.record.metadata.name for each in told))
    more = len(names[MAX_NAMED:]) + unread
    tail = f" and {more} more; `sparewheel remediations` lists them" if more else ""
    return f"Incidents: {', '.join(names[:MAX_NAMED])}{tail}."
