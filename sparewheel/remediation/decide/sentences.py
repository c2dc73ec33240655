"""The words that people read: per job, and per event. "No action needed" only where it is true."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from sparewheel.api.base import format_time
from sparewheel.api.enums import Severity
from sparewheel.api.faults import Action, Fault
from sparewheel.api.ladder import RebootBy
from sparewheel.api.remediation import FenceKind, JobRecord, Outcome, Remediation, Trigger
from sparewheel.remediation.decide.events import (
    EVENT_BREAKER,
    EVENT_BREAKER_CLOSED,
    EVENT_CLOSED,
    EVENT_DETECTED,
    EVENT_HELD,
    EVENT_JOB,
    EVENT_STRUCK_AGAIN,
    EVENT_VETO_OVERDUE,
    EVENT_WAITING,
    EVENT_WORSE,
    event_name,
    jobs_of,
    kind_of,
    severity_of,
    strike_of,
)
from sparewheel.remediation.decide.record import ORDER, current_stage, stage_record
from sparewheel.remediation.decide.rung_words import rungs_ahead
from sparewheel.remediation.decide.treated import planned

COMMENT_PREFIX = "sparewheel: "
_JOIN = " | "


def clock(when: datetime) -> str:
    return when.strftime("%H:%M:%S UTC")


def fault_words(fault: Fault) -> str:
    """``XID 79 on GPU 3 (GPU has fallen off the bus)``."""
    where = (
        f" on GPU {fault.gpu_index}" if fault.gpu_index is not None else f" on {fault.device}" if fault.device else ""
    )
    words = (
        fault.message.partition(": NVRM")[0].partition("\n")[0][:100].rstrip(".")
    )  # the raw line stays in the record
    detail = f" ({words})" if words else ""
    return f"{fault.code}{where}{detail}"


def cause_words(remediation: Remediation) -> str:
    spec = remediation.spec
    drill = " (a drill)" if spec.fault.drill else ""
    if spec.trigger is Trigger.MANUAL:
        return f"node {spec.node} was taken out for replacement by {spec.requested_by or 'an administrator'}"
    if spec.trigger is Trigger.NODE_LOST:
        return f"node {spec.node} was lost{drill}"
    if spec.trigger is Trigger.NODE_REMOVED:
        return f"node {spec.node} was removed from the cluster"
    return f"node {spec.node} failed: {fault_words(spec.fault)}{drill}"


def job_sentence(remediation: Remediation, job: JobRecord, ending: str = "") -> str:
    """What ended the attempt, whose fault it was, and how the job goes on: one or two sentences."""
    if runs_on(remediation, job):
        cause = cause_words(remediation)
        return f"It runs on, although {cause}: too many nodes were fenced just now. Check that it makes progress."
    when = job.stopping_at or job.requeued_at or remediation.status.owned.slurm_struck_at
    at = f" at {clock(when)}" if when else ""
    blame = "" if remediation.spec.trigger is Trigger.MANUAL else "; that is the platform's fault, not the job's"
    cause = cause_words(remediation)
    if job.strike > 1:
        cause = f"the spare that it ran on was given up, after {cause}"
    first = f"Attempt {job.attempt_before} ended{at} because {cause}{blame}."
    if job.crashed_by_itself and job.ended_with:
        first = _ended_by_itself(remediation, job, cause)
    return f"{first} {_goes_on(job, ending)}"


def _ended_by_itself(remediation: Remediation, job: JobRecord, cause: str) -> str:
    """What is known, and what is only taken to be so: nobody saw the fault end the job."""
    fault, when = remediation.spec.fault.first_seen, job.stopping_at
    at, relation = "", f"about when {cause}"
    if when is not None and when < fault and job.strike == 1:
        seconds = max(1, round((fault - when).total_seconds()))
        at, relation = f" at {clock(when)}", f"{seconds} s before it was seen that {cause}"
    taken = "it is taken to be the node's doing and not the job's"
    return f"Attempt {job.attempt_before} ended by itself{at} with {job.ended_with}, {relation}; so {taken}."


def _goes_on(job: JobRecord, ending: str) -> str:
    if job.resumed_at is not None:
        where = f" on {', '.join(job.hosts_after)}" if job.hosts_after else ""
        origin = (
            f"resumed from step {job.resumed_from_step}, so only work after that step was done again"
            if job.resumed_from_step is not None
            else "began again at the beginning, because it found no checkpoint"
        )
        return f"Attempt {job.attempt_after} {origin} (first new step {clock(job.resumed_at)}{where})."
    if job.not_requeued_reason and job.requeued_at is not None and not job.closed:
        release = f"`scontrol release {job.job_id}` lets it start again"
        return f"It does not come back by itself: {job.not_requeued_reason}. {release}."
    if job.not_requeued_reason:
        return f"It does not come back by itself: {job.not_requeued_reason}. Submit it again if it is still wanted."
    if ending:
        return f"Since then: {ending}."
    if job.started_at is not None:
        return f"Attempt {job.attempt_after} started at {clock(job.started_at)}; no action needed."
    if job.requeued_at is not None:
        return f"It was requeued at {clock(job.requeued_at)} and starts again by itself; no action needed."
    return "It is given up to the grace period to save, and starts again by itself; no action needed."


def with_comment(existing: str, sentence: str) -> str:
    """The job's comment with our part replaced; the user's own part stays."""
    head, found, _ = existing.partition(COMMENT_PREFIX)
    own = (head if found else existing).strip().removesuffix(_JOIN.strip()).strip()
    return f"{own}{_JOIN}{COMMENT_PREFIX}{sentence}" if own else f"{COMMENT_PREFIX}{sentence}"


def runs_on(remediation: Remediation, job: JobRecord) -> bool:
    """The breaker spared the job, so it may stand still on a broken GPU."""
    gone = job.stopping_at or job.requeued_at or job.closed
    return remediation.status.fence is FenceKind.DRAIN and not gone


def needs_action(job: JobRecord) -> bool:
    return bool(job.not_requeued_reason) and not job.resumed_at


def cordon_reason(remediation: Remediation) -> str:
    """Text for Slinky's node-cordon-reason; at most 256 characters there."""
    return f"{remediation.metadata.name}: {fault_words(remediation.spec.fault)}"[:200]


def _worse(prefix: str, remediation: Remediation, event: str) -> tuple[str, str]:
    node = remediation.spec.node
    if event.startswith(f"{EVENT_STRUCK_AGAIN}/"):
        title = f"{prefix}The spare in place of {node} was given up, and its jobs ended again"
        spare = event.rpartition("/")[2]
        return title, f"{prefix}Spare {spare} was given up after jobs had started on it. Another one is looked for."
    later = ", ".join(fault_words(fault) for fault in remediation.status.more_faults)
    return f"{prefix}{node} got worse", f"{prefix}Also on node {node}: {later}. {_what_we_do(remediation)}"


def _job_title_and_text(prefix: str, remediation: Remediation, event: str, jobs: list[JobRecord]) -> tuple[str, str]:
    """As it stands when it is sent: by then the job may have been struck again."""
    job = jobs[0]
    if job.strike > strike_of(event):
        return f"{prefix}Job {job.job_id} of {job.user} was struck again", job_sentence(remediation, job)
    verb = "goes on" if job.resumed_at else "does not come back by itself" if needs_action(job) else "has ended"
    return f"{prefix}Job {job.job_id} of {job.user} {verb}", job.message or job_sentence(remediation, job)


def event_body(remediation: Remediation, event: str, created_at: datetime) -> dict[str, Any]:
    """One message as data; ``sparewheel.notify.port.Event`` names the fields."""
    spec, status = remediation.spec, remediation.status
    kind, jobs = event_name(event), jobs_of(remediation, event)
    overdue = event == EVENT_VETO_OVERDUE
    if kind == EVENT_BREAKER_CLOSED:
        jobs = []  # the breaker's end is no news of theirs
    action = overdue or any(needs_action(job) or runs_on(remediation, job) for job in jobs)
    title, text = _title_and_text(remediation, event, jobs)
    severity = severity_of(kind_of(event, status.outcome), action_needed=action, overdue=overdue)
    if kind == EVENT_BREAKER_CLOSED:
        severity = Severity.INFO
    return {
        "event": kind,
        "severity": severity.value,
        "title": title,
        "text": text,
        "time": format_time(created_at),
        "remediation": remediation.metadata.name,
        "node": spec.node,
        "pool": spec.pool,
        "stage": current_stage(status).value,
        "outcome": status.outcome.value,
        "fault": {
            "code": spec.fault.code,
            "device": spec.fault.device,
            "gpuIndex": spec.fault.gpu_index,
            "message": spec.fault.message,
            "firstSeen": format_time(spec.fault.first_seen),
        },
        "jobs": [
            {
                "jobId": job.job_id,
                "user": job.user,
                "name": job.job_name,
                "what": job.message or job_sentence(remediation, job),
                "actionNeeded": needs_action(job) or runs_on(remediation, job),
            }
            for job in jobs
        ],
        "durations": durations(remediation),
        "actionNeeded": action
        or kind in {EVENT_BREAKER, EVENT_HELD}
        or (kind == EVENT_CLOSED and status.outcome is Outcome.FAILED),
        "drill": spec.fault.drill,
        "dryRun": spec.dry_run,
    }


def durations(remediation: Remediation) -> dict[str, float]:
    """Seconds from the fault to the end of each stage that has ended."""
    begin = remediation.spec.fault.first_seen
    found: dict[str, float] = {}
    for stage in ORDER:
        record = stage_record(remediation.status, stage)
        if record is not None and record.ended_at is not None:
            found[stage.value] = round(max(0.0, (record.ended_at - begin).total_seconds()), 3)
    return found


_BREAKER = (
    "Running jobs on them go on, perhaps on broken GPUs. It stays open until a person has looked: "
    "`sparewheel breaker` shows it, `sparewheel breaker close --reason ... --resume` fences the waiting nodes, "
    "`--skip-backlog` leaves them drained."
)


def _title_and_text(remediation: Remediation, event: str, jobs: list[JobRecord]) -> tuple[str, str]:
    spec, status, kind = remediation.spec, remediation.status, event_name(event)
    prefix = "" if spec.detect_only else "Dry run: " if spec.dry_run else "Drill: " if spec.fault.drill else ""
    if kind == EVENT_DETECTED:
        title = f"{prefix}{spec.fault.code} on {spec.node}"
        opening = (
            f"{prefix}{cause_words(remediation)[0].upper()}{cause_words(remediation)[1:]}. {_what_we_do(remediation)}"
        )
        return title, opening if jobs or status.jobs_listed_at is None else f"{opening} No job ran there."
    if kind == EVENT_WAITING:
        title = f"{prefix}{spec.node} waits for {status.waiting_for or status.replacement.message or 'its next step'}"
        return title[:200], f"{prefix}The incident {remediation.metadata.name} {_waits(remediation)}"
    if kind == EVENT_HELD:
        return f"{prefix}{spec.node} needs a person", (
            f"{prefix}{spec.hold}. Node {spec.node} stays fenced and nothing more is done. Find the cause; then "
            f"`kubectl uncordon {spec.node}` gives it back, `sparewheel replace {spec.node}` has it replaced after all."
        )
    if kind == EVENT_BREAKER:
        return f"{prefix}The breaker is open: nodes that fail are only drained", f"{prefix}{status.message}. {_BREAKER}"
    if kind == EVENT_BREAKER_CLOSED:
        return f"{prefix}The breaker is closed", f"{prefix}Nodes that fail are fenced again, within the limits."
    if kind == EVENT_WORSE:
        return _worse(prefix, remediation, event)
    if kind == EVENT_JOB:
        return _job_title_and_text(prefix, remediation, event, jobs)
    total = durations(remediation).get("closed")
    title = f"{prefix}{spec.node}: {status.outcome.value.lower()}"
    if total is not None:
        title += f" after {total:.0f} s"
    return title, f"{prefix}{status.message}"


def _waits(remediation: Remediation) -> str:
    waits = remediation.status.waiting_for or remediation.status.replacement.message or "its next step"
    return f"waits for {waits}. The node stays fenced; it goes on by itself."


def _what_we_do(remediation: Remediation) -> str:
    if remediation.spec.detect_only:
        return "This fault is only shown: nothing was touched."
    if remediation.spec.dry_run:
        return "Nothing was touched; the record says what would have been done."
    if planned(remediation) is Action.RESTART_JOB:
        return "The jobs that it hit are requeued; the node stays in service."
    if planned(remediation) is Action.CORDON:
        return (
            "The node is cordoned and its running jobs go on. It comes back by itself when the fault is gone; "
            f"`kubectl uncordon {remediation.spec.node}` gives it back now, "
            f"`sparewheel replace {remediation.spec.node}` has it replaced."
        )
    if remediation.status.fence is FenceKind.DRAIN:
        return "Too many nodes were fenced just now, so it is only drained: running jobs go on, new ones stay away."
    rungs = rungs_ahead(remediation)
    if rungs and not remediation.status.ladder.rungs:
        by_helper = remediation.spec.reboot_by[:1] == [RebootBy.HELPER]
        who = "its helper" if by_helper else "the capacity backend"
        return (
            f"The node is fenced; once its jobs have left, {who} is asked for a {rungs}. "
            "If that doesn't help, it is replaced from spare capacity."
        )
    why = f", because {remediation.spec.ladder_off}" if remediation.spec.ladder_off else ""
    return f"The node is fenced and is being replaced from spare capacity{why}."
