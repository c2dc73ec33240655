"""Delivers the record's messages, beside both tracks and never in their way."""

from __future__ import annotations

import asyncio
from datetime import datetime, timedelta

from sparewheel.api.remediation import Delivery, FenceKind, NodeStage, Remediation
from sparewheel.notify.port import NotifyError
from sparewheel.remediation.decide.events import EVENT_DETECTED
from sparewheel.remediation.decide.messages import Told, message
from sparewheel.remediation.decide.record import delivered, delivery_failed, ended
from sparewheel.remediation.stages.incident import Incident, log

WAIT_FOR_JOBS_SECONDS = 5.0
"""The first message says what becomes of each job, so it waits this long for the list of jobs."""
LAPSE_HOURS = 24
ROUTE_SECONDS = 15.0
"""A try that takes longer has failed, whatever the notifier does."""
HOLD_ATTEMPTS = 5
"""The later messages of a route wait for one that fails, for this many tries: order is kept while a receiver is away
for a moment, and a message that it never takes stops no other."""


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


def routes(record: Remediation, now: datetime) -> list[str]:
    """Routes that still have something to be sent. Each is served by itself: one that hangs holds up no other."""
    return list(dict.fromkeys(delivery.route for delivery in undelivered(record, now)))


async def act(incident: Incident, route: str) -> float | None:
    """Send what is due on one route, in order; seconds until the next is, None when nothing is left for it."""
    await incident.journal.make_sure()  # by an older version a message would be sent that has been delivered
    pauses: list[float] = []
    for delivery in [d for d in undelivered(incident.record, incident.now()) if d.route == route]:
        left = (_due(incident, delivery) - incident.now()).total_seconds()
        pause = await _send(incident, delivery) if left <= 0 else left if delivery.attempts else min(left, 0.5)
        if pause is None:
            continue
        pauses.append(pause)
        if _attempts(incident, delivery) < HOLD_ATTEMPTS:
            break  # the later ones wait for it
    return min(pauses) if pauses else None


def _attempts(incident: Incident, delivery: Delivery) -> int:
    return next((d.attempts for d in incident.record.status.outbox if d.key == delivery.key), 0)


async def _send(incident: Incident, delivery: Delivery) -> float | None:
    """One try. None when it was accepted."""
    incident.lead()
    event = message([Told(incident.record, delivery)], incident.name)
    try:
        async with asyncio.timeout(ROUTE_SECONDS):
            await incident.ports.notifier.send(delivery.route, event, delivery.key)
    except (NotifyError, TimeoutError) as error:
        text = str(error) or f"route {delivery.route}: not through within {ROUTE_SECONDS:.0f} s; check its receiver"
        log.warning("%s: %s not delivered: %s", incident.name, delivery.key, text)
        await incident.update(delivery_failed(delivery.key, incident.now(), text))
        return 1.0
    await incident.update(delivered(delivery.key, incident.now()))
    return None
