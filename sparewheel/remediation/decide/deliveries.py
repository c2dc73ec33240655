"""Changes of the outbox as pure functions: queued, addressed, folded, delivered, tried again, given up. Once, ever."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import StrEnum

from sparewheel.api.remediation import Delivery, Remediation, RemediationStatus
from sparewheel.remediation.decide.record import Change, copy

MAX_RETRY_SECONDS = 300.0
MAX_ERROR_CHARACTERS = 500
LAPSE = timedelta(hours=24)
"""A message that nobody accepted for this long is given up; its last error stays in the record."""


class DeliveryState(StrEnum):
    QUEUED = "queued"
    ADDRESSED = "addressed"
    """A message to each owner took its place."""
    DELIVERED = "delivered"
    UNDELIVERED = "undelivered"
    """Given up."""


@dataclass(frozen=True, slots=True)
class Recipient:
    """An owner, and the route that reaches them; ``note`` says why it is not the one that was meant."""

    user: str
    route: str
    note: str = ""


def state(delivery: Delivery) -> DeliveryState:
    if delivery.delivered_at is not None:
        return DeliveryState.DELIVERED
    if delivery.given_up_at is not None:
        return DeliveryState.UNDELIVERED
    return DeliveryState.ADDRESSED if delivery.addressed_at is not None else DeliveryState.QUEUED


def queued(record: Remediation) -> list[Delivery]:
    """Messages still to be sent, in their order."""
    return [delivery for delivery in record.status.outbox if state(delivery) is DeliveryState.QUEUED]


def troubled(record: Remediation) -> list[Delivery]:
    """Messages that somebody should look after: given up, or refused so far."""
    wanted = {DeliveryState.UNDELIVERED, DeliveryState.QUEUED}
    return [one for one in record.status.outbox if state(one) in wanted and (one.last_error or one.given_up_at)]


def enqueue(name: str, event: str, routes: Iterable[str], now: datetime, note: str = "") -> Change:
    """Put one message per route into the outbox. The key is made of the record and the event: once, ever.

    ``note``: what the record doesn't say.
    """

    def change(status: RemediationStatus) -> RemediationStatus:
        new = copy(status)
        known = {delivery.key for delivery in new.outbox}
        for route in routes:
            key = f"{name}/{event}/{route}"
            if key not in known:
                new.outbox.append(Delivery(key=key, route=route, event=event, note=note, created_at=now, due_at=now))
        return new

    return change


def address(key: str, recipients: Iterable[Recipient], now: datetime) -> Change:
    """A message to each owner takes the place of the one for all of them, which stays so that it is queued once."""

    def change(status: RemediationStatus) -> RemediationStatus:
        whole = next((one for one in status.outbox if one.key == key), None)
        if whole is None or state(whole) is not DeliveryState.QUEUED:
            return status
        new = copy(status)
        for delivery in new.outbox:
            if delivery.key == key:
                delivery.addressed_at = now
        known = {delivery.key for delivery in new.outbox}
        for recipient in recipients:
            own = f"{key}/{recipient.user}"
            if own not in known:
                new.outbox.append(_to(whole, own, recipient, now))
        return new

    return change


def _to(whole: Delivery, key: str, recipient: Recipient, now: datetime) -> Delivery:
    nowhere = "" if recipient.route else recipient.note
    return Delivery(
        key=key,
        route=recipient.route or whole.route,
        event=whole.event,
        recipient=recipient.user,
        note=recipient.note,
        created_at=whole.created_at,
        due_at=now,
        given_up_at=now if nowhere else None,
        last_error=nowhere,
    )


def _open(key: str, update: Callable[[Delivery], None]) -> Change:
    """Change one message unless its story is over."""

    def change(status: RemediationStatus) -> RemediationStatus:
        new = copy(status)
        for delivery in new.outbox:
            if delivery.key == key and state(delivery) is DeliveryState.QUEUED:
                update(delivery)
        return new

    return change


def decided(key: str, folds: Iterable[str], now: datetime) -> Change:
    """Journal, before the first try, that the message goes out and which others it carries. Decided once."""

    def update(delivery: Delivery) -> None:
        if delivery.decided_at is None:
            delivery.decided_at, delivery.folds = now, list(folds)

    return _open(key, update)


def delivered(key: str, now: datetime) -> Change:
    def update(delivery: Delivery) -> None:
        delivery.attempts += 1
        delivery.delivered_at, delivery.last_error = now, ""

    return _open(key, update)


def told_by(key: str, carrier: Delivery) -> Change:
    """The message that carried this one was delivered, or given up."""

    def update(delivery: Delivery) -> None:
        delivery.folded_into = carrier.key
        delivery.delivered_at, delivery.given_up_at = carrier.delivered_at, carrier.given_up_at
        delivery.last_error = carrier.last_error

    return _open(key, update)


def give_up(key: str, now: datetime, error: str) -> Change:
    def update(delivery: Delivery) -> None:
        delivery.given_up_at, delivery.last_error = now, error[:MAX_ERROR_CHARACTERS]

    return _open(key, update)


def delivery_failed(
    key: str,
    now: datetime,
    error: str,
    *,
    permanent: bool = False,
    retry_after_seconds: float | None = None,
    jitter: float = 0.0,
) -> Change:
    """Next try after 1, 2, 4 ... 300 seconds, up to half of it less by ``jitter`` (0 to 1), later if so asked."""

    def update(delivery: Delivery) -> None:
        pause = min(MAX_RETRY_SECONDS, 2.0 ** min(delivery.attempts, 16)) * (1 - jitter / 2)
        delivery.attempts += 1
        delivery.due_at = now + timedelta(seconds=max(pause, retry_after_seconds or 0.0))
        delivery.last_error = error[:MAX_ERROR_CHARACTERS]
        delivery.given_up_at = now if permanent else None

    return _open(key, update)
