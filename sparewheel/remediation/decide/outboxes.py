"""The outboxes of all records as one look-up: what waits on each line, and which message carries which. Pure.

Made of the records alone and kept while they change, so that a storm's messages need not each read all records.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import dataclass
from datetime import datetime
from typing import Self

from sparewheel.api.remediation import Delivery, Remediation
from sparewheel.remediation.decide.deliveries import DeliveryState, state
from sparewheel.remediation.decide.events import event_name


@dataclass(frozen=True, slots=True)
class Line:
    """Messages that may be told together: one route, one person, one kind of event."""

    route: str
    recipient: str
    event: str

    @classmethod
    def of(cls, delivery: Delivery) -> Line:
        return cls(delivery.route, delivery.recipient, event_name(delivery.event))


class Outboxes:
    """``put`` and ``drop`` what changes; all else is asked by key, line or name."""

    def __init__(self) -> None:
        self._records: dict[str, Remediation] = {}
        self._taken_in: dict[str, list[Delivery]] = {}
        self._waiting: dict[Line, dict[str, Delivery]] = {}
        self._carriers: dict[str, Delivery] = {}
        self._last: dict[Line, datetime] = {}

    @classmethod
    def of(cls, records: Iterable[Remediation]) -> Self:
        made = cls()
        for record in records:
            made.put(record)
        return made

    # ---------------------------------------------------------------- changing
    def put(self, record: Remediation) -> None:
        """The newest version of a record."""
        name, outbox = record.metadata.name, record.status.outbox
        doubtful = self._take_out(name)
        self._records[name], self._taken_in[name] = record, list(outbox)
        for one in outbox:
            self._take_in(one)
        for line in doubtful - {Line.of(one) for one in outbox if one.decided_at == self._last.get(Line.of(one))}:
            self._count_anew(line)

    def drop(self, name: str) -> None:
        """The record is gone."""
        for line in self._take_out(name):
            self._count_anew(line)

    def _take_in(self, one: Delivery) -> None:
        line = Line.of(one)
        if one.decided_at is None:
            if state(one) is DeliveryState.QUEUED:
                self._waiting.setdefault(line, {})[one.key] = one
            return
        self._carriers.update(dict.fromkeys(one.folds, one))
        self._last[line] = max(one.decided_at, self._last.get(line, one.decided_at))

    def _take_out(self, name: str) -> set[Line]:
        """Lines whose last decision was in this record."""
        found = set[Line]()
        self._records.pop(name, None)
        for one in self._taken_in.pop(name, ()):
            line = Line.of(one)
            if one.decided_at is None:
                self._waiting.get(line, {}).pop(one.key, None)
                continue
            for key in one.folds:
                if self._carriers.get(key) is one:
                    del self._carriers[key]
            if one.decided_at == self._last.get(line):
                found.add(line)
        return found

    def _count_anew(self, line: Line) -> None:
        """The record with the line's last decision went: as rare as deleting a record within the window."""
        last = self._last_of(line, self._records)
        if last is None:
            self._last.pop(line, None)
        else:
            self._last[line] = last

    def _last_of(self, line: Line, names: Iterable[str]) -> datetime | None:
        records = [self._records[name] for name in names if name in self._records]
        lines = [one for record in records for one in record.status.outbox if Line.of(one) == line]
        return max((one.decided_at for one in lines if one.decided_at is not None), default=None)

    # ---------------------------------------------------------------- asking
    def record(self, name: str) -> Remediation | None:
        return self._records.get(name)

    def delivery(self, key: str) -> Delivery | None:
        record = self._records.get(incident_of(key))
        return None if record is None else next((one for one in record.status.outbox if one.key == key), None)

    def carrier(self, key: str) -> Delivery | None:
        """The message that tells this one; None where it is told by itself or not decided on."""
        return self._carriers.get(key)

    def last_decided(self, line: Line, only: Collection[str] | None = None) -> datetime | None:
        """When a message of the line was last decided on, ``only`` in these incidents."""
        return self._last.get(line) if only is None else self._last_of(line, only)

    def waiting(self, line: Line) -> list[Delivery]:
        """Messages that are not decided on yet, the carried ones too."""
        return list(self._waiting.get(line, {}).values())


def incident_of(key: str) -> str:
    """The name that a message's key begins with."""
    return key.partition("/")[0]
