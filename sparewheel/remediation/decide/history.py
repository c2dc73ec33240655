"""What past incidents say: which were real, which host each struck, which took a host out of service. Pure."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime, timedelta
from typing import Final

from sparewheel.api.remediation import FenceKind, Outcome, Remediation, Trigger
from sparewheel.remediation.decide.record import is_open

_ENDS_SERVICE = frozenset({FenceKind.DOWN, FenceKind.REQUEUE, FenceKind.DRAIN, FenceKind.NONE})
SAME_QUARANTINE: Final = timedelta(minutes=10)
"""A record and its host write down one quarantine each by itself; a killed controller's successor takes seconds."""


def real(record: Remediation) -> bool:
    """A fault of a host that happened: no drill, no dry run, no person's doing, and nobody called it off by hand."""
    spec, status = record.spec, record.status
    if spec.dry_run or spec.fault.drill or spec.trigger is Trigger.MANUAL:
        return False
    return not (status.outcome is Outcome.CANCELLED and status.cancelled_by)


def recent(records: Iterable[Remediation], now: datetime, within: timedelta) -> list[Remediation]:
    """Real incidents whose fault was seen within the time, oldest first."""
    found = [
        record for record in records if real(record) and timedelta(0) <= now - record.spec.fault.first_seen <= within
    ]
    return sorted(found, key=lambda record: (record.spec.fault.first_seen, record.metadata.name))


def struck_hosts(record: Remediation) -> set[str]:
    """The host that had the fault, and the spares that failed their checks in its incident."""
    replacement = record.status.replacement
    return {replacement.bad_host or record.spec.node, *replacement.refused_hosts}


def hosts_lost(record: Remediation) -> int:
    """How many hosts the incident took out of service: the bad one, and each spare that was refused."""
    status = record.status
    under_way = is_open(record) and status.fence in _ENDS_SERVICE
    return int(status.replacement.quarantined_at is not None or under_way) + len(status.replacement.refused_hosts)


def drilled(host: str, quarantined_at: datetime | None, records: Iterable[Remediation]) -> bool:
    """Did a drill put the host into this quarantine? Then it was never broken, and its stay is no repair."""
    return quarantined_at is not None and any(
        record.spec.fault.drill
        and record.status.replacement.bad_host == host
        and record.status.replacement.quarantined_at is not None
        and abs(record.status.replacement.quarantined_at - quarantined_at) <= SAME_QUARANTINE
        for record in records
    )
