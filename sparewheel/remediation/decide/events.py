"""Names of what is told, what kind each is, and how grave. Pure."""

from __future__ import annotations

from typing import Final

from sparewheel.api.enums import Severity
from sparewheel.api.remediation import JobRecord, Outcome, Remediation
from sparewheel.api.routes import EventKind

EVENT_DETECTED = "incident.detected"
EVENT_WAITING = "incident.waiting"
EVENT_VETO_OVERDUE = f"{EVENT_WAITING}/veto-overdue"
EVENT_CLOSED = "incident.closed"
EVENT_WORSE = "incident.worse"
"""A later fault of the same node asks for more than was done so far."""
EVENT_HELD = "incident.held"
"""Repairing is no cure: a person has to look."""
EVENT_JOB = "job.resumed"
EVENT_STRUCK_AGAIN = f"{EVENT_WORSE}/struck-again"
"""The spare on which the jobs ran was given up, and they with it; the spare's name is behind one more slash."""
EVENT_BREAKER = "breaker.open"
EVENT_BREAKER_CLOSED = "breaker.closed"
"""Both have the time of the opening behind a slash, since a breaker may open again."""
EVENT_TEST = "test"

_KINDS: Final = {
    EVENT_DETECTED: EventKind.DETECTED,
    EVENT_WAITING: EventKind.WAITING,
    EVENT_WORSE: EventKind.DETECTED,
    EVENT_HELD: EventKind.FAILED,
    EVENT_JOB: EventKind.JOB,
    EVENT_BREAKER: EventKind.BREAKER,
    EVENT_BREAKER_CLOSED: EventKind.BREAKER,
}
_ENDS: Final = {Outcome.CANCELLED: EventKind.CANCELLED, Outcome.FAILED: EventKind.FAILED}


def job_event(job_id: int, strike: int) -> str:
    """News of a job: told once for each time that it was struck."""
    return f"{EVENT_JOB}/{job_id}" + (f"/{strike}" if strike > 1 else "")


def job_of(event: str) -> str:
    """The job that the event is about; empty where it is about all of the incident's."""
    name, _, subject = event.partition("/")
    return subject.partition("/")[0] if name == EVENT_JOB else ""


def strike_of(event: str) -> int:
    """Of news of a job: which of its strikes it is about."""
    number = event.rpartition("/")[2] if event.count("/") > 1 else "1"
    return int(number)


def jobs_of(record: Remediation, event: str) -> list[JobRecord]:
    """The jobs that the event is about."""
    if event.startswith(f"{EVENT_STRUCK_AGAIN}/"):
        return [job for job in record.status.jobs if job.strike > 1]
    return [job for job in record.status.jobs if job_of(event) in {"", str(job.job_id)}]


def event_name(event: str) -> str:
    """``incident.waiting`` of ``incident.waiting/veto``."""
    return event.partition("/")[0]


def kind_of(event: str, outcome: Outcome) -> EventKind:
    """``event`` as in the outbox; an end is what the incident's outcome says."""
    name = event_name(event)
    return _ENDS.get(outcome, EventKind.CLOSED) if name == EVENT_CLOSED else _KINDS[name]


def severity_of(kind: EventKind, *, action_needed: bool = False, overdue: bool = False) -> Severity:
    """A fault and a failed healing are critical, and so is what stands still for longer than the policy allows; what a
    person must do, or what stands still, is a warning."""
    if overdue or kind in {EventKind.DETECTED, EventKind.FAILED, EventKind.BREAKER}:
        return Severity.CRITICAL
    return Severity.WARNING if kind is EventKind.WAITING or action_needed else Severity.INFO
