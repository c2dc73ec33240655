"""One incident as rows: which stage of which track, from when to when, in seconds after the fault. Pure."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from datetime import datetime
from typing import Any

from sparewheel.api.remediation import JobRecord, JobStage, NodeStage, Outcome, Remediation
from sparewheel.remediation.decide.rung_words import result_words
from sparewheel.remediation.decide.sentences import job_sentence

NODE_TRACK = "node"
NOTIFIED = "notified"


@dataclass(frozen=True, slots=True)
class Row:
    """One bar. ``end_seconds`` is None while it goes on."""

    track: str
    """``node``, ``notified`` or ``job ID``."""
    stage: str
    start_seconds: float
    end_seconds: float | None
    message: str = ""


def zero(remediation: Remediation) -> datetime:
    """The fault's own time: all else is counted from it."""
    return remediation.spec.fault.first_seen


def rows(remediation: Remediation) -> list[Row]:
    """All tracks, in the order of their beginnings."""
    start = zero(remediation)

    def after(time: datetime) -> float:
        return round((time - start).total_seconds(), 3)

    found: list[Row] = []
    for record in remediation.status.stages:
        begin = start if record.name is NodeStage.DETECTED else record.started_at
        end = after(record.ended_at) if record.ended_at else None
        found.append(Row(NODE_TRACK, record.name.value, after(begin), end, record.message))
    for rung in remediation.status.ladder.rungs:
        end = after(rung.ended_at) if rung.ended_at else None
        found.append(
            Row(NODE_TRACK, f"{rung.kind.value} {rung.device}".rstrip(), after(rung.asked_at), end, result_words(rung))
        )
    first_told = [delivery.delivered_at for delivery in remediation.status.outbox if delivery.delivered_at]
    if first_told:
        created = min(delivery.created_at for delivery in remediation.status.outbox)
        found.append(Row(NOTIFIED, NOTIFIED, after(created), after(min(first_told))))
    for job in remediation.status.jobs:
        found.extend(Row(f"job {job.job_id}", *part) for part in _job_rows(job, after))
    return sorted(found, key=lambda row: (row.start_seconds, row.track))


def _job_rows(job: JobRecord, after: Any) -> list[tuple[str, float, float | None]]:
    """Each stage runs from the one before it to its own time."""
    times = {
        JobStage.STOPPING: job.stopping_at,
        JobStage.REQUEUED: job.requeued_at,
        JobStage.STARTED: job.started_at,
        JobStage.RESUMED: job.resumed_at,
    }
    found: list[tuple[str, float, float | None]] = []
    before: datetime | None = None
    for stage, time in times.items():
        if time is None:
            continue
        found.append((stage.value, after(before or time), after(time)))
        before = time
    return found


def as_json(remediation: Remediation) -> dict[str, Any]:
    """For scripts: the rows and what the incident is about."""
    return {
        "name": remediation.metadata.name,
        "node": remediation.spec.node,
        "fault": remediation.spec.fault.code,
        "outcome": remediation.status.outcome.value,
        "waiting_for": remediation.status.waiting_for,
        "message": remediation.status.message,
        "stages": [asdict(row) for row in rows(remediation)],
        "jobs": [
            {"job_id": job.job_id, "user": job.user, "sentence": job.message or job_sentence(remediation, job)}
            for job in remediation.status.jobs
        ],
    }


def closing_lines(remediation: Remediation) -> list[str]:
    """What stands below the rows: each job's story, what is said of the incident, what it waits for."""
    status = remediation.status
    lines = [f"Job {job.job_id} of {job.user}: {job.message or job_sentence(remediation, job)}" for job in status.jobs]
    lines += [status.message] if status.message else []
    if status.outcome is Outcome.OPEN:
        lines.append(f"It waits for {status.waiting_for}." if status.waiting_for else "It goes on.")
    return lines


def news(told: set[str], remediation: Remediation) -> list[str]:
    """Lines that were not ``told`` yet, for whoever follows an incident: what began, what ended, what it waits for."""
    lines: list[str] = []
    for row in rows(remediation):
        name = row.stage if row.stage == row.track else f"{row.track}: {row.stage}"
        lines.append(f"{row.start_seconds:8.1f} s  {name} began")
        if row.end_seconds is not None:
            note = f" ({row.message})" if row.message else ""
            lines.append(f"{row.end_seconds:8.1f} s  {name} ended{note}")
    if remediation.status.waiting_for:
        lines.append(f"            waits for {remediation.status.waiting_for}")
    if remediation.status.outcome is not Outcome.OPEN:
        lines += [*closing_lines(remediation), f"{remediation.metadata.name}: {remediation.status.outcome.value}"]
    fresh = [line for line in dict.fromkeys(lines) if line not in told]
    told.update(fresh)
    return fresh


def job_as_json(remediation: Remediation, job: JobRecord) -> dict[str, Any]:
    """For scripts: what an incident did to one job, with the sentence that its user reads."""
    return {
        "remediation": remediation.metadata.name,
        "node": remediation.spec.node,
        "fault": remediation.spec.fault.code,
        "sentence": job.message or job_sentence(remediation, job),
        "job": job.model_dump(mode="json", by_alias=True, exclude_none=True),
    }
