"""Delivers the record's messages, beside both tracks and never in their way."""

from __future__ import annotations

from datetime import datetime, timedelta

from sparewheel.api.remediation import Delivery, FenceKind, NodeStage, Remediation
from sparewheel.notify.port import NotifyError
from sparewheel.remediation.decide.record import delivered, delivery_failed, ended
from sparewheel.remediation.decide.sentences import EVENT_DETECTED, event_body
from sparewheel.remediation.stages.incident import Incident, log

WAIT_FOR_JOBS_SECONDS = 5.0
"""The first message says what becomes of each job, so it waits this long for the list of jobs."""
LAPSE_HOURS = 24


def undelivered(record: Remediation, now: datetime) -> list[Delivery]:
    """Messages still to be sent; one not accepted for a day lapses, its last error stays in the record."""
    oldest = now - timedelta(hours=LAPSE_HOURS)
    return [d for d in record.status.outbox if d.delivered_at is None and d.created_at > oldest]


def _due(incident: Incident, delivery: Delivery) -> datetime:
    if delivery.event != EVENT_DETECTED or delivery.attempts or incident.record.spec.dry_run:
        return delivery.due_at
    status = incident.record.status
    jobs_known = ended(status, NodeStage.FENCED) or status.fence is FenceKind.NONE
    return delivery.due_at if jobs_known else delivery.due_at + timedelta(seconds=WAIT_FOR_JOBS_SECONDS)


async def act(incident: Incident) -> float | None:
    """Send what is due; seconds until the next is, None when the outbox is empty."""
    await incident.journal.make_sure()  # by an older version a message would be sent that has been delivered
    pauses: list[float] = []
    for delivery in undelivered(incident.record, incident.now()):
        left = (_due(incident, delivery) - incident.now()).total_seconds()
        if left > 0:
            pauses.append(min(left, 0.5) if not delivery.attempts else left)
            continue
        incident.lead()
        event = event_body(incident.record, delivery.event, delivery.created_at)
        try:
            await incident.ports.notifier.send(delivery.route, event, delivery.key)
        except NotifyError as error:
            log.warning("%s: %s not delivered: %s", incident.name, delivery.key, error)
            await incident.update(delivery_failed(delivery.key, incident.now(), str(error)))
            pauses.append(1.0)
        else:
            await incident.update(delivered(delivery.key, incident.now()))
    return min(pauses) if pauses else None
