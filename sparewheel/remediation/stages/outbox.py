"""Delivers the record's messages, beside both tracks and never in their way."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from sparewheel.api.remediation import Delivery
from sparewheel.api.routes import DEFAULT_GROUP_SECONDS, Audience, PagerDutyRoute, Route
from sparewheel.notify.port import NotifyError
from sparewheel.remediation.decide import grouping
from sparewheel.remediation.decide.breaker import opening_of
from sparewheel.remediation.decide.deliveries import (
    LAPSE,
    Recipient,
    address,
    decided,
    delivered,
    delivery_failed,
    give_up,
    queued,
    told_by,
)
from sparewheel.remediation.decide.events import (
    EVENT_BREAKER,
    EVENT_BREAKER_CLOSED,
    EVENT_CLOSED,
    EVENT_DETECTED,
    event_name,
)
from sparewheel.remediation.decide.grouping import Carried, Go, Wait
from sparewheel.remediation.decide.messages import Told, message
from sparewheel.remediation.decide.outboxes import Outboxes, incident_of
from sparewheel.remediation.decide.record import is_open
from sparewheel.remediation.decide.routing import find, recipients
from sparewheel.remediation.stages.incident import Incident, log

ROUTE_SECONDS = 15.0
"""A try that takes longer has failed, whatever the notifier does."""
LOOK_AGAIN_SECONDS = 1.0
OTHERS_OPEN_SECONDS = 5.0
"""How often it is looked whether all incidents of an alert have ended."""


async def sort(incident: Incident) -> tuple[list[str], float | None]:
    """Address what is for owners; the routes with something to be sent, and when to look again for the rest.

    Each route is served by itself: one that hangs holds up no other.
    """
    policy = await incident.ports.fleet.policy()
    later: float | None = None
    for delivery in queued(incident.record):
        route = find(policy.routes, delivery.route)
        if delivery.recipient or route is None or route.audience is not Audience.OWNER:
            continue
        if delivery.event == EVENT_DETECTED and not grouping.jobs_known(incident.record):
            later = 0.5
            continue
        found = recipients(policy, route, incident.record, delivery.event)
        _log_fallbacks(incident, found)
        await incident.update(address(delivery.key, found, incident.now()))
    return list(dict.fromkeys(one.route for one in queued(incident.record))), later


def _log_fallbacks(incident: Incident, found: Sequence[Recipient]) -> None:
    for recipient in found:
        if recipient.note:
            log.info("%s: %s", incident.name, recipient.note)


async def act(incident: Incident, route: str) -> float | None:
    """Send what is due on one route, for each person in order; seconds until the next is, None when nothing is left."""
    await incident.journal.make_sure()  # by an older version a message would be sent that has been delivered
    policy = await incident.ports.fleet.policy()
    known = find(policy.routes, route)
    for_owners = known is not None and known.audience is Audience.OWNER
    mine = [one for one in queued(incident.record) if one.route == route and (one.recipient or not for_owners)]
    pauses: list[float] = []
    for person in dict.fromkeys(one.recipient for one in mine):
        pause = await _in_order(incident, known, [one for one in mine if one.recipient == person])
        if pause is not None:
            pauses.append(pause)
    return min(pauses) if pauses else None


async def _in_order(incident: Incident, route: Route | None, deliveries: Sequence[Delivery]) -> float | None:
    pauses: list[float] = []
    for delivery in deliveries:
        now = incident.now()
        left = (grouping.due(incident.record, delivery, now) - now).total_seconds()
        pause = await _one(incident, route, delivery) if left <= 0 else left if delivery.attempts else min(left, 0.5)
        if pause is None:
            continue
        pauses.append(pause)
        if _attempts(incident, delivery) < grouping.HOLD_ATTEMPTS:
            break  # the later ones wait for it
    return min(pauses) if pauses else None


def _attempts(incident: Incident, delivery: Delivery) -> int:
    return next((d.attempts for d in incident.record.status.outbox if d.key == delivery.key), 0)


async def _one(incident: Incident, route: Route | None, delivery: Delivery) -> float | None:
    """What becomes of one message now. None when its story is over."""
    now = incident.now()
    plan = await _plan(incident, route, delivery)
    match plan:
        case Wait():
            return plan.seconds
        case Carried():
            if plan.by.delivered_at is None and plan.by.given_up_at is None:
                return max(LOOK_AGAIN_SECONDS, (plan.by.due_at - now).total_seconds())
            await incident.update(told_by(delivery.key, plan.by))
            return None
        case Go():
            if now - delivery.created_at > LAPSE:
                text = delivery.last_error or "never accepted"
                await incident.update(give_up(delivery.key, now, f"given up after a day: {text}"))
                return None
            return await _send(incident, delivery, plan)


async def _plan(incident: Incident, route: Route | None, delivery: Delivery) -> Go | Wait | Carried:
    """Decide, one message at a time, and journal before the first try which others go with it."""
    window = route.group_seconds if route is not None else DEFAULT_GROUP_SECONDS
    async with incident.ports.group_lock:
        outboxes, only = await incident.ports.fleet.certain_outboxes(), None
        now = incident.now()
        if isinstance(route, PagerDutyRoute) and event_name(delivery.event) == EVENT_CLOSED:
            alert = grouping.alert_of(incident.name, route.name, outboxes)
            only = grouping.alert_members(alert, route.name, outboxes)
            if _any_open(outboxes, only):
                return Wait(OTHERS_OPEN_SECONDS)
        plan = grouping.decide(delivery, outboxes, now, window, only)
        if isinstance(plan, Go) and delivery.decided_at is None:
            await incident.update(decided(delivery.key, plan.folds, now))
        return plan


def _any_open(outboxes: Outboxes, names: set[str]) -> bool:
    records = (outboxes.record(name) for name in names)
    return any(one is not None and is_open(one) for one in records)


async def _send(incident: Incident, delivery: Delivery, plan: Go) -> float | None:
    """One try. None when it was accepted, or refused for good."""
    incident.lead()
    event = await _event(incident, delivery, plan)
    try:
        async with asyncio.timeout(ROUTE_SECONDS):
            await incident.ports.notifier.send(delivery.route, event, delivery.key)
    except NotifyError as error:
        return await _failed(incident, delivery, error)
    except TimeoutError:
        text = f"route {delivery.route}: not through within {ROUTE_SECONDS:.0f} s; check its receiver"
        return await _failed(incident, delivery, NotifyError(text))
    await incident.update(delivered(delivery.key, incident.now()))
    return None


async def _failed(incident: Incident, delivery: Delivery, error: NotifyError) -> float | None:
    log.warning("%s: %s not delivered: %s", incident.name, delivery.key, error)
    change = delivery_failed(
        delivery.key,
        incident.now(),
        str(error),
        permanent=error.permanent,
        retry_after_seconds=error.retry_after_seconds,
        jitter=incident.ports.jitter(),
    )
    await incident.update(change)
    return None if error.permanent else LOOK_AGAIN_SECONDS


async def _event(incident: Incident, delivery: Delivery, plan: Go) -> dict[str, object]:
    """The message's body, with what it carries of other incidents."""
    outboxes = await incident.ports.fleet.certain_outboxes()
    told, unread = [Told(incident.record, delivery)], 0
    for key in plan.folds:
        record, other = outboxes.record(incident_of(key)), outboxes.delivery(key)
        if record is None or other is None:
            unread += 1
        else:
            told.append(Told(record, other))
    return message(told, grouping.alert_of(incident.name, delivery.route, outboxes, _opening(delivery)), unread)


def _opening(delivery: Delivery) -> str:
    """The event by which a pager heard first of what the message is about."""
    about_breaker = event_name(delivery.event) in {EVENT_BREAKER, EVENT_BREAKER_CLOSED}
    return opening_of(delivery.event) if about_breaker else EVENT_DETECTED
