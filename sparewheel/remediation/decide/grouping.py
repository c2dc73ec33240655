"""Many messages at once become few: the first goes at once, what follows within the window is one summary. Pure.

Decided from the outboxes in the records alone, so a controller that takes over decides as the one before would. What
was decided stands in the record of the message that carries the others, before it is sent: so none is told twice.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from datetime import datetime, timedelta

from sparewheel.api.remediation import Delivery, FenceKind, NodeStage, Remediation
from sparewheel.remediation.decide.deliveries import DeliveryState, state
from sparewheel.remediation.decide.events import EVENT_DETECTED
from sparewheel.remediation.decide.outboxes import Line, Outboxes, incident_of
from sparewheel.remediation.decide.record import ended, is_open

MAX_FOLDS = 500
"""Messages that one carries; the rest is for the next."""
HOLD_ATTEMPTS = 5
"""The later messages of an incident wait for one that fails, for this many tries: order is kept while a receiver is
away for a moment, and a message that it never takes stops no other."""
WAIT_FOR_JOBS_SECONDS = 5.0
"""The first message says what becomes of each job, so it waits this long for the list of jobs."""


@dataclass(frozen=True, slots=True)
class Go:
    """Send it, with these others in it."""

    folds: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Wait:
    seconds: float


@dataclass(frozen=True, slots=True)
class Carried:
    """Another message tells it; its delivery is this one's."""

    by: Delivery


def decide(
    mine: Delivery, outboxes: Outboxes, now: datetime, window_seconds: float, only: Collection[str] | None = None
) -> Go | Wait | Carried:
    """What becomes of message ``mine``, which is ready; ``only``: told together with these incidents alone.

    Asked by every message of a storm, so only the one that carries the others looks at them.
    """
    carrier = outboxes.carrier(mine.key)
    if carrier is not None and _among(carrier, only):
        return Carried(carrier)
    if mine.decided_at is not None or mine.attempts:
        return Go(tuple(mine.folds))
    if window_seconds <= 0:
        return Go()
    line = Line.of(mine)
    last = outboxes.last_decided(line, only)
    left = 0.0 if last is None else (last + timedelta(seconds=window_seconds) - now).total_seconds()
    if left > 0:
        return Wait(min(left, window_seconds))  # a clock that was set back must not hold it for ever
    free = [one for one in outboxes.waiting(line) if _among(one, only) and _free(one, outboxes, now)]
    folds = [one.key for one in sorted(free, key=lambda one: (one.created_at, one.key)) if one.key != mine.key]
    return Go(tuple(folds[:MAX_FOLDS]))


def _among(delivery: Delivery, only: Collection[str] | None) -> bool:
    return only is None or incident_of(delivery.key) in only


def _free(delivery: Delivery, outboxes: Outboxes, now: datetime) -> bool:
    """Nothing but the window holds it up: not told by another, due, and after the earlier ones of its incident."""
    record = outboxes.record(incident_of(delivery.key))
    if record is None or delivery.attempts or outboxes.carrier(delivery.key) is not None:
        return False
    return due(record, delivery, now) <= now and not _held(record, delivery, outboxes)


def _held(record: Remediation, delivery: Delivery, outboxes: Outboxes) -> bool:
    for one in record.status.outbox:
        if one.key == delivery.key:
            return False
        same = (one.route, one.recipient) == (delivery.route, delivery.recipient)
        teller = outboxes.carrier(one.key) or one
        if same and state(one) is DeliveryState.QUEUED and teller.attempts < HOLD_ATTEMPTS:
            return True
    return False


# -------------------------------------------------------------------- reading the outboxes
def jobs_known(record: Remediation) -> bool:
    """The jobs on the node are written down, or there is nothing to write down."""
    status = record.status
    return (
        ended(status, NodeStage.FENCED) or status.fence is FenceKind.NONE or record.spec.dry_run or not is_open(record)
    )


def due(record: Remediation, delivery: Delivery, now: datetime) -> datetime:
    """When the message may go, whatever others do. One that was never tried and is due in our future was queued by a
    clock ahead of ours: it goes now."""
    if not delivery.attempts and delivery.due_at > now:
        return now
    if delivery.event != EVENT_DETECTED or delivery.attempts or jobs_known(record):
        return delivery.due_at
    return delivery.due_at + timedelta(seconds=WAIT_FOR_JOBS_SECONDS)


def alert_of(incident: str, route: str, outboxes: Outboxes, opening: str = EVENT_DETECTED) -> str:
    """What a pager knows a trouble by: the incident that led the message by which it heard of it first."""
    carrier = outboxes.carrier(f"{incident}/{opening}/{route}")
    return incident if carrier is None else incident_of(carrier.key)


def alert_members(alert: str, route: str, outboxes: Outboxes) -> set[str]:
    """Names of the incidents that one alert stands for."""
    leading = outboxes.delivery(f"{alert}/{EVENT_DETECTED}/{route}")
    return {alert, *(incident_of(key) for key in (leading.folds if leading is not None else ()))}
