"""Lemons: hosts that strike again and again. Few hosts cause most failures, so they are kept out until a person clears
them (Meta's research clusters: failures of large jobs fell from 14 % to 4 % without them, arXiv 2410.21680)."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime, timedelta

from sparewheel.api.remediation import Remediation
from sparewheel.api.remediation_policy import LemonRule
from sparewheel.remediation.decide.history import recent, struck_hosts


def incidents_of(host: str, records: Iterable[Remediation], rule: LemonRule, now: datetime) -> list[Remediation]:
    """The host's real incidents within the rule's window, oldest first; one in which it was a refused spare is one."""
    window = timedelta(seconds=rule.window_seconds)
    return [record for record in recent(records, now, window) if host in struck_hosts(record)]


def lemon_reason(
    host: str,
    records: Iterable[Remediation],
    rule: LemonRule,
    now: datetime,
    *,
    this_one: str = "",
    cleared_at: datetime | None = None,
) -> str:
    """Why the host is a lemon; empty when it is not.

    ``this_one``: name of the incident that strikes it now, counted even where the record doesn't say so yet.
    ``cleared_at``: a person cleared it then, so only what came later counts.
    """
    found = {
        record.metadata.name
        for record in incidents_of(host, records, rule, now)
        if cleared_at is None or record.spec.fault.first_seen > cleared_at
    }
    found |= {this_one} - {""}
    if len(found) < rule.incidents:
        return ""
    days = rule.window_seconds / 86400
    return f"lemon: {len(found)} incidents in {days:g} days ({', '.join(sorted(found))})"
