"""The page of one incident: what happened, the picture, each job's story, who was told. Pure."""

from __future__ import annotations

from datetime import datetime

from sparewheel.api.remediation import Delivery, Outcome, Remediation
from sparewheel.cli.pages.bars import picture
from sparewheel.cli.pages.html import Raw, badge, moment, page, span, table, text
from sparewheel.cli.timeline import rows, zero
from sparewheel.remediation.decide.deliveries import DeliveryState, state
from sparewheel.remediation.decide.record import is_open
from sparewheel.remediation.decide.sentences import job_sentence

_KINDS = {Outcome.HEALED: "good", Outcome.FAILED: "bad", Outcome.OPEN: "wait"}


def outcome(record: Remediation) -> Raw:
    return badge(record.status.outcome.value, kind_of(record))


def kind_of(record: Remediation) -> str:
    return _KINDS.get(record.status.outcome, "plain")


def fault_words(record: Remediation) -> str:
    fault = record.spec.fault
    device = f" on {fault.device}" if fault.device else ""
    marks = [word for word, holds in (("drill", fault.drill), ("dry run", record.spec.dry_run)) if holds]
    return f"{fault.code}{device}" + (f" ({', '.join(marks)})" if marks else "")


def incident_page(record: Remediation, now: datetime) -> str:
    name = record.metadata.name
    body = [f"<h1>{text(name)}</h1>", f'<p class="soft">As of {moment(now)}.</p>', *story(record, now)]
    return page(f"{name} · {record.spec.node}", body)


def story(record: Remediation, now: datetime) -> list[str]:
    """All of an incident but its name, for its own page and for its part of the overview."""
    spec, status = record.spec, record.status
    found = rows(record)
    now_seconds = (now - zero(record)).total_seconds()
    about = f"{fault_words(record)}, node {spec.node}, pool {spec.pool}, at {moment(zero(record))}."
    parts = [f"<p>{outcome(record).html} {text(about)}</p>"]
    if is_open(record) and status.waiting_for:
        parts.append(f'<p class="attention">Waits for {text(status.waiting_for)}</p>')
    if status.message:
        parts.append(f"<p>{text(status.message)}</p>")
    parts.append(picture(f"Stages of {record.metadata.name}", found, now_seconds))
    if status.jobs:
        jobs = [[job.job_id, job.user, job.message or job_sentence(record, job)] for job in status.jobs]
        parts += ["<h3>Jobs</h3>", table(("job", "user", "what became of it"), jobs, label="jobs")]
    lines = [
        [
            row.track,
            row.stage,
            f"{row.start_seconds:.1f} s",
            "goes on" if row.end_seconds is None else span(row.end_seconds - row.start_seconds),
            row.message or "-",
        ]
        for row in found
    ]
    parts += ["<h3>Steps</h3>", table(("track", "stage", "from", "took", "note"), lines, label="steps")]
    told = [
        [one.route or "-", one.recipient or "-", one.event, _delivery(one), one.last_error or "-"]
        for one in status.outbox
    ]
    if told:
        parts += ["<h3>Messages</h3>", table(("route", "to", "about", "state", "last error"), told, label="messages")]
    return parts


def _delivery(one: Delivery) -> Raw:
    what = state(one)
    kinds = {DeliveryState.DELIVERED: "good", DeliveryState.UNDELIVERED: "bad", DeliveryState.QUEUED: "wait"}
    return badge(what.value, kinds.get(what, "plain"))
