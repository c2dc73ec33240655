"""Many messages at once become few: the first goes at once, what follows within the window is one summary. Pure.

Decided from the outboxes in the records alone, so a controller that takes over decides as the one before would. What
was decided stands in the record of the message that carries the others, before it is sent: so none is told twice.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta

from sparewheel.api.remediation import Delivery, FenceKind, NodeStage, Outcome, Remediation
from sparewheel.remediation.decide.deliveries import LAPSE, DeliveryState, state
from sparewheel.remediation.decide.events import EVENT_DETECTED, event_name
from sparewheel.remediation.decide.record import ended

MAX_FOLDS = 500
"""Messages that one carries; the rest is for the next."""
HOLD_ATTEMPTS = 5
"""The later messages of an incident wait for one that fails, for this many tries: order is kept while a receiver is
away for a moment, and a message that it never takes stops no other."""
WAIT_FOR_JOBS_SECONDS = 5.0
"""The first message says what becomes of each job, so it waits this long for the list of jobs."""
_OLD = LAPSE + timedelta(hours=1)
"""What is older has been told or given up."""


@dataclass(frozen=True, slots=True)
class Line:
    """Messages that may be told together: one route, one person, one kind of event."""

    route: str
    recipient: str
    event: str

    @classmethod
    def of(cls, delivery: Delivery) -> Line:
        return cls(delivery.route, delivery.recipient, event_name(delivery.event))


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
    mine: Delivery,
    records: Iterable[Remediation],
    now: datetime,
    window_seconds: float,
    only: Collection[str] | None = None,
) -> Go | Wait | Carried:
    """What becomes of message ``mine``, which is ready, given all records; ``only``: of these incidents alone.

    Asked by every message of a storm, so the common answers take one look at each message of the route.
    """
    line, oldest = Line.of(mine), now - _OLD
    found, decided, last = list[tuple[Remediation, Delivery]](), list[Delivery](), None
    for record in records:
        outbox = record.status.outbox
        if not outbox or outbox[-1].created_at < oldest or (only is not None and record.metadata.name not in only):
            continue
        for one in outbox:
            if one.route != line.route:
                continue
            if one.decided_at is None:
                found.append((record, one))
                continue
            if mine.key in one.folds:
                return Carried(one)
            decided.append(one)
            if (last is None or one.decided_at > last) and Line.of(one) == line:
                last = one.decided_at
    if mine.decided_at is not None or mine.attempts:
        return Go(tuple(mine.folds))
    if window_seconds <= 0:
        return Go()
    left = 0.0 if last is None else (last + timedelta(seconds=window_seconds) - now).total_seconds()
    if left > 0:
        return Wait(min(left, window_seconds))  # a clock that was set back must not hold it for ever
    carriers = {key: one for one in decided for key in one.folds}
    free = [one for record, one in found if Line.of(one) == line and _free(record, one, carriers, now)]
    folds = [one.key for one in sorted(free, key=lambda one: (one.created_at, one.key)) if one.key != mine.key]
    return Go(tuple(folds[:MAX_FOLDS]))


def _free(record: Remediation, delivery: Delivery, carriers: Mapping[str, Delivery], now: datetime) -> bool:
    """Nothing but the window holds it up: not told by another, due, and after the earlier ones of its incident."""
    if state(delivery) is not DeliveryState.QUEUED or delivery.attempts or delivery.key in carriers:
        return False
    return due(record, delivery) <= now and not _held(record, delivery, carriers)


def _held(record: Remediation, delivery: Delivery, carriers: Mapping[str, Delivery]) -> bool:
    for one in record.status.outbox:
        if one.key == delivery.key:
            return False
        same = (one.route, one.recipient) == (delivery.route, delivery.recipient)
        if same and state(one) is DeliveryState.QUEUED and carriers.get(one.key, one).attempts < HOLD_ATTEMPTS:
            return True
    return False


# -------------------------------------------------------------------- reading the outboxes
def jobs_known(record: Remediation) -> bool:
    """The jobs on the node are written down, or there is nothing to write down."""
    status = record.status
    return (
        ended(status, NodeStage.FENCED)
        or status.fence is FenceKind.NONE
        or record.spec.dry_run
        or status.outcome is not Outcome.OPEN
    )


def due(record: Remediation, delivery: Delivery) -> datetime:
    """When the message may go, whatever others do."""
    if delivery.event != EVENT_DETECTED or delivery.attempts or jobs_known(record):
        return delivery.due_at
    return delivery.due_at + timedelta(seconds=WAIT_FOR_JOBS_SECONDS)


def alert_of(incident: str, route: str, records: Iterable[Remediation]) -> str:
    """What a pager knows the incident by: the incident that led the message by which it heard of it first."""
    first = f"{incident}/{EVENT_DETECTED}/{route}"
    for record in records:
        if any(first in one.folds for one in record.status.outbox):
            return record.metadata.name
    return incident


def alert_members(alert: str, route: str, records: Iterable[Remediation]) -> set[str]:
    """Names of the incidents that one alert stands for."""
    leading = f"{alert}/{EVENT_DETECTED}/{route}"
    for record in records:
        if record.metadata.name == alert:
            folds = [key for one in record.status.outbox if one.key == leading for key in one.folds]
            return {alert, *(incident_of(key) for key in folds)}
    return {alert}


def incident_of(key: str) -> str:
    """The name that a message's key begins with."""
    return key.partition("/")[0]
