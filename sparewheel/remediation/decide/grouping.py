"""Many messages at once become few: the first goes at once, what follows within the window is one summary. Pure.

Decided from the outboxes in the records alone, so a controller that takes over decides as the one before would. What
was decided stands in the record of the message that carries the others, before it is sent: so none is told twice.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from sparewheel.api.remediation import Delivery, FenceKind, NodeStage, Outcome, Remediation
from sparewheel.remediation.decide.deliveries import LAPSE, DeliveryState, queued, state
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
class Post:
    """A message on the line. ``ready``: nothing but the window holds it up."""

    delivery: Delivery
    ready: bool = True


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


def decide(key: str, posts: Sequence[Post], now: datetime, window_seconds: float) -> Go | Wait | Carried:
    """What becomes of message ``key``, given everything on its line. ``key`` itself is ready."""
    carried: set[str] = set()
    last: datetime | None = None
    for post in posts:
        one = post.delivery
        if key in one.folds:
            return Carried(one)
        carried.update(one.folds)
        if one.decided_at is not None and (last is None or one.decided_at > last):
            last = one.decided_at
    mine = next(post.delivery for post in posts if post.delivery.key == key)
    if mine.decided_at is not None or mine.attempts:
        return Go(tuple(mine.folds))
    if window_seconds <= 0:
        return Go()
    left = 0.0 if last is None else (last + timedelta(seconds=window_seconds) - now).total_seconds()
    if left > 0:
        return Wait(min(left, window_seconds))  # a clock that was set back must not hold it for ever
    waiting = [post.delivery for post in posts if post.ready and _undecided(post.delivery)]
    folds = [one.key for one in sorted(waiting, key=_age) if one.key != key and one.key not in carried]
    return Go(tuple(folds[:MAX_FOLDS]))


def _undecided(delivery: Delivery) -> bool:
    return state(delivery) is DeliveryState.QUEUED and delivery.decided_at is None and not delivery.attempts


def _age(delivery: Delivery) -> tuple[datetime, str]:
    return delivery.created_at, delivery.key


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


def posts(line: Line, records: Iterable[Remediation], now: datetime) -> list[Post]:
    """Everything on the line, from all records."""
    recent = [record for record in records if _recent(record, now)]
    on_route = [(record, [d for d in record.status.outbox if d.route == line.route]) for record in recent]
    carriers = {key: one for _, outbox in on_route for one in outbox for key in one.folds}
    found: list[Post] = []
    for record, outbox in on_route:
        held = False
        for one in outbox:
            if one.recipient != line.recipient:
                continue
            if Line.of(one) == line:
                found.append(Post(one, ready=not held and due(record, one) <= now))
            attempts = carriers.get(one.key, one).attempts
            held = held or (state(one) is DeliveryState.QUEUED and attempts < HOLD_ATTEMPTS)
    return found


def _recent(record: Remediation, now: datetime) -> bool:
    return bool(queued(record)) or any(now - one.created_at < _OLD for one in record.status.outbox)


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
