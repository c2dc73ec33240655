"""The ladder's lines in the journal: begun, a rung taken, sent, withdrawn, ended, and how it all ended. Pure."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime

from sparewheel.api.ladder import RungRecord, RungResult
from sparewheel.api.remediation import NodeStage, RemediationStatus
from sparewheel.remediation.decide.ladder import Ended, open_rung
from sparewheel.remediation.decide.record import Change, begin_once, chain, copy, end, started


def begin_mending(now: datetime) -> Change:
    """Never once a spare is claimed."""
    return _unless_claimed(begin_once(NodeStage.MENDED, now))


def take_rung(rung: RungRecord) -> Change:
    """Journal the rung, before the node's helper is asked."""

    def change(status: RemediationStatus) -> RemediationStatus:
        ladder = status.ladder
        known = any(one.id == rung.id for one in ladder.rungs)
        if known or open_rung(status) is not None or ladder.over_at is not None or ladder.mended_at is not None:
            return status
        new = copy(status)
        new.ladder.rungs.append(rung)
        return new

    return _unless_claimed(change)


def _unless_claimed(change: Change) -> Change:
    return lambda status: status if status.replacement.claimed_at is not None else change(status)


def _at_rung(rung_id: str, update: Callable[[RungRecord], None]) -> Change:
    """Change the rung while it is open; one that has ended stays as it is."""

    def change(status: RemediationStatus) -> RemediationStatus:
        rung = open_rung(status)
        if rung is None or rung.id != rung_id:
            return status
        new = copy(status)
        found = open_rung(new)
        assert found is not None  # noqa: S101 - as in the status that was copied
        update(found)
        return new

    return change


def withdraw_rung(rung_id: str, now: datetime) -> Change:
    def update(rung: RungRecord) -> None:
        rung.withdrawn_at = rung.withdrawn_at or now

    return _at_rung(rung_id, update)


def send_rung(rung_id: str, now: datetime) -> Change:
    """The capacity backend is told next. Who finds this written by another does not tell it."""

    def update(rung: RungRecord) -> None:
        if rung.withdrawn_at is None:
            rung.sent_at = rung.sent_at or now

    return _at_rung(rung_id, update)


def end_rung(rung_id: str, how: Ended, now: datetime) -> Change:
    def update(rung: RungRecord) -> None:
        rung.ended_at, rung.result, rung.message = max(now, rung.asked_at), how.result, how.message
        rung.rebooted = how.rebooted

    return _at_rung(rung_id, update)


def helped_late(rung_id: str, how: Ended, now: datetime) -> Change:
    """A rung that was given up for its helper's silence has helped all the same."""

    def change(status: RemediationStatus) -> RemediationStatus:
        taken = status.ladder.rungs
        late = bool(taken) and taken[-1].id == rung_id and taken[-1].result is RungResult.SILENT
        if not late or status.ladder.over_at is not None:
            return status
        new = copy(status)
        rung = new.ladder.rungs[-1]
        rung.ended_at, rung.result, rung.message = max(now, rung.asked_at), how.result, how.message
        return new

    return change


def mended(why: str, now: datetime) -> Change:
    """The node is well: nothing is decided about it any more, it is given back."""

    def change(status: RemediationStatus) -> RemediationStatus:
        if status.ladder.mended_at is not None or status.ladder.over_at is not None:
            return status
        new = copy(status)
        new.ladder.mended_at, new.ladder.why = now, why
        return new

    return chain(change, end(NodeStage.MENDED, now, why))


def ladder_over(why: str, now: datetime) -> Change:
    """No rung is left: from here on the node is replaced."""

    def change(status: RemediationStatus) -> RemediationStatus:
        if status.ladder.over_at is not None or status.ladder.mended_at is not None or open_rung(status) is not None:
            return status
        new = copy(status)
        new.ladder.over_at, new.ladder.why = now, why
        return end(NodeStage.MENDED, now, why)(new) if started(new, NodeStage.MENDED) else new

    return change
