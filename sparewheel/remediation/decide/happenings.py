"""Kubernetes Events of an incident, made from its record alone: the same record gives the same Events, named the same.

Fields and limits: events.k8s.io/v1 (``regarding``, ``note`` up to 1024 bytes, ``reason`` and ``action`` not empty).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from sparewheel.api.base import format_time
from sparewheel.api.ladder import RebootBy, RungResult
from sparewheel.api.names import (
    API_VERSION,
    EVENTS_REPORTER,
    REASON_CANCELLED,
    REASON_CLOSED,
    REASON_DETECTED,
    REASON_FENCED,
    REASON_JOB_LOST,
    REASON_JOB_REQUEUED,
    REASON_JOB_RESUMED,
    REASON_MENDED,
    REASON_MENDING,
    REASON_NOT_MENDED,
    REASON_REPLACED,
    REASON_VETOED,
    REASON_WAITING_FOR_SPARE,
)
from sparewheel.api.remediation import FenceKind, JobRecord, NodeStage, Outcome, Remediation
from sparewheel.remediation.decide.record import ended, is_open, stage_record
from sparewheel.remediation.decide.rung_words import result_words, words_of
from sparewheel.remediation.decide.sentences import cause_words, needs_action

MAX_JOBS = 10
"""Jobs that one Event names; the record has them all."""
MAX_NOTE_BYTES = 1024
NODE_EVENTS_NAMESPACE = "default"
"""Where Events about objects without a namespace live."""


@dataclass(frozen=True, slots=True)
class Happening:
    """``key`` names it within its incident; ``time`` None: it has none in the record."""

    key: str
    reason: str
    action: str
    note: str
    time: datetime | None
    warning: bool = False


def happenings(remediation: Remediation) -> list[Happening]:
    """All that has happened so far and is worth an Event, in the order of the stages; then the jobs."""
    return [*_stages(remediation), *_closed(remediation), *_jobs(remediation.status.jobs)]


def _stages(remediation: Remediation) -> list[Happening]:
    spec, status = remediation.spec, remediation.status
    found: list[Happening] = []
    detected, fenced = stage_record(status, NodeStage.DETECTED), stage_record(status, NodeStage.FENCED)
    if detected is not None:
        cause = cause_words(remediation)
        note = f"{'Dry run: ' if spec.dry_run else ''}{cause[0].upper()}{cause[1:]}"
        found.append(Happening("detected", REASON_DETECTED, "Detect", note, detected.ended_at, warning=True))
    if fenced is not None and fenced.ended_at is not None and ended(status, NodeStage.DETECTED) and not spec.dry_run:
        found.append(
            Happening("fenced", REASON_FENCED, "Fence", _fence_words(remediation), fenced.ended_at, warning=True)
        )
    vetoed = stage_record(status, NodeStage.VETOED)
    if vetoed is not None:
        note = f"Waits for {status.waiting_for}" if vetoed.ended_at is None and status.waiting_for else "Vetoed"
        key = f"vetoed-{vetoed.attempts}"  # a veto that comes back is another one
        time = vetoed.started_at if vetoed.attempts == 1 else None
        found.append(Happening(key, REASON_VETOED, "Wait", note, time, warning=True))
    found.extend(_rungs(remediation))
    found.extend(_spare(remediation))
    return found


def _rungs(remediation: Remediation) -> list[Happening]:
    """Each rung of the ladder twice: asked for, and how it went."""
    found: list[Happening] = []
    for number, rung in enumerate(remediation.status.ladder.rungs, 1):
        who = "node's helper" if rung.by is RebootBy.HELPER else "capacity backend"
        note = f"Asked the {who}: {words_of(rung)}, for up to {rung.timeout_seconds} s"
        found.append(Happening(f"rung-{number}-asked", REASON_MENDING, "Mend", note, rung.asked_at))
        if rung.ended_at is not None:
            helped = rung.result is RungResult.SUCCEEDED
            reason = REASON_MENDED if helped else REASON_NOT_MENDED
            words = result_words(rung)
            note = f"{words[0].upper()}{words[1:]}"
            found.append(Happening(f"rung-{number}", reason, "Mend", note, rung.ended_at, warning=not helped))
    return found


def _fence_words(remediation: Remediation) -> str:
    spec, status = remediation.spec, remediation.status
    if status.fence is FenceKind.NONE or spec.slurm_node is None:
        return "Cordoned and tainted; no Slurm node ran there"
    state = "DOWN" if status.fence is FenceKind.DOWN else "DRAIN"
    jobs = f"{len(status.jobs)} job{'' if len(status.jobs) == 1 else 's'}"
    grace = "left to end" if status.fence is FenceKind.DRAIN else f"given {spec.grace_seconds} s to save"
    return f"Cordoned and tainted; Slurm node {spec.slurm_node} is {state}, {jobs} there {grace}"


def _spare(remediation: Remediation) -> list[Happening]:
    record = remediation.status.replacement
    found: list[Happening] = []
    if record.message and record.claimed_at is None and is_open(remediation):
        note = f"Waits for {record.message}"
        found.append(Happening("waiting-for-spare", REASON_WAITING_FOR_SPARE, "Wait", note, None, warning=True))
    if record.admitted_at is not None:
        note = f"{record.spare_node or record.spare_host} serves in place of {record.bad_host}"
        found.append(Happening("replaced", REASON_REPLACED, "Replace", note, record.admitted_at))
    return found


def _closed(remediation: Remediation) -> list[Happening]:
    status = remediation.status
    record = stage_record(status, NodeStage.CLOSED)
    if is_open(remediation):
        return []
    reason = REASON_CANCELLED if status.outcome is Outcome.CANCELLED else REASON_CLOSED
    note = f"{status.outcome.value}: {status.message}"
    warning = status.outcome is Outcome.FAILED
    return [Happening("closed", reason, "Close", note, record.ended_at if record else None, warning=warning)]


def _jobs(jobs: Sequence[JobRecord]) -> list[Happening]:
    """One for all jobs of a kind, as soon as it is known of each: the record has the times of each."""
    found: list[Happening] = []
    settled, closed = all(job.closed or job.requeued_at for job in jobs), all(job.closed for job in jobs)
    requeued = [(job, job.requeued_at) for job in jobs if job.requeued_at is not None]
    if requeued and settled:
        note = f"Requeued: {_listed(_who(job) for job, _ in requeued)}"
        found.append(Happening("jobs-requeued", REASON_JOB_REQUEUED, "Requeue", note, max(at for _, at in requeued)))
    resumed = [(job, job.resumed_at) for job in jobs if job.resumed_at is not None]
    if resumed and closed:
        note = f"Resumed: {_listed(_who(job) + _where(job) for job, _ in resumed)}"
        found.append(Happening("jobs-resumed", REASON_JOB_RESUMED, "Resume", note, max(at for _, at in resumed)))
    lost = [job for job in jobs if needs_action(job)]
    if lost and closed:
        words = _listed(f"{_who(job)} ({job.not_requeued_reason})" for job in lost)
        note = f"Not coming back by themselves: {words}"
        found.append(Happening("jobs-lost", REASON_JOB_LOST, "Requeue", note, None, warning=True))
    return found


def _listed(words: Iterable[str]) -> str:
    found = list(words)
    more = f" and {len(found) - MAX_JOBS} more" if len(found) > MAX_JOBS else ""
    return ", ".join(found[:MAX_JOBS]) + more


def _who(job: JobRecord) -> str:
    return f"job {job.job_id} of {job.user or 'an unknown user'}"


def _where(job: JobRecord) -> str:
    return "" if job.resumed_from_step is None else f" from step {job.resumed_from_step}"


def event_bodies(remediation: Remediation, happening: Happening, instance: str, now: datetime) -> list[dict[str, Any]]:
    """One Event about the Node, one about the Remediation. ``instance``: the controller that writes them."""
    metadata, spec = remediation.metadata, remediation.spec
    node = {"apiVersion": "v1", "kind": "Node", "name": spec.node, "uid": spec.node_uid}
    record = {
        "apiVersion": API_VERSION,
        "kind": Remediation.KIND,
        "name": metadata.name,
        "namespace": metadata.namespace,
        "uid": metadata.uid,
    }
    own = metadata.namespace or NODE_EVENTS_NAMESPACE
    return [
        {
            "apiVersion": "events.k8s.io/v1",
            "kind": "Event",
            "metadata": {"name": f"{metadata.name}.{kind}.{happening.key}", "namespace": space},
            "eventTime": format_time(happening.time or now),
            "reportingController": EVENTS_REPORTER,
            "reportingInstance": instance[:128] or EVENTS_REPORTER,
            "reason": happening.reason,
            "action": happening.action,
            "regarding": regarding,
            "related": related,
            "note": happening.note.encode()[:MAX_NOTE_BYTES].decode(errors="ignore"),
            "type": "Warning" if happening.warning else "Normal",
        }
        for kind, space, regarding, related in (
            ("node", NODE_EVENTS_NAMESPACE, node, record),
            ("record", own, record, node),
        )
    ]
