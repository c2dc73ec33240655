"""Times as logs print them, read without the machine's locale. Pure: the year that a stamp lacks comes from ``now``."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta
from typing import Final

ISO: Final = r"[0-9]{4}-[0-9]{2}-[0-9]{2}[T ][0-9]{2}:[0-9]{2}:[0-9]{2}(?:[.,][0-9]{1,9})?(?:Z|[+-][0-9]{2}:?[0-9]{2})?"
SHORT_STAMP: Final = r"[A-Z][a-z]{2} [ 0-9][0-9] [0-9]{2}:[0-9]{2}:[0-9]{2}(?:\.[0-9]{1,9})?"
_MONTHS = {
    name: number
    for number, name in enumerate(
        ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"], 1
    )
}
_ISO = re.compile(
    r"(?:[A-Z][a-z]{2} )?(?P<day>[0-9]{4}-[0-9]{2}-[0-9]{2})[T ](?P<time>[0-9]{2}:[0-9]{2}:[0-9]{2})"
    r"(?:[.,](?P<fraction>[0-9]{1,9}))? ?(?P<zone>Z|UTC|[+-][0-9]{2}:?[0-9]{2})?"
)
_SHORT = re.compile(
    r"(?P<month>[A-Z][a-z]{2}) (?P<day>[ 0-9][0-9]) (?P<time>[0-9:]{8})(?:\.(?P<fraction>[0-9]{1,9}))?$"
)
_CTIME = re.compile(
    r"[A-Z][a-z]{2} (?P<month>[A-Z][a-z]{2}) (?P<day>[ 0-9][0-9]) (?P<time>[0-9:]{8})"
    r"(?:\.(?P<fraction>[0-9]{1,9}))? (?P<year>[0-9]{4})$"
)
_MINUTE = re.compile(r"(?P<month>[A-Z][a-z]{2}) ?(?P<day>[ 0-9]?[0-9]) (?P<time>[0-9]{2}:[0-9]{2})$")
_SECONDS = re.compile(r"[0-9]{1,12}\.[0-9]{1,9}")


def boot_seconds(stamp: str) -> float | None:
    """``123.456789``: seconds since the boot."""
    return float(stamp) if _SECONDS.fullmatch(stamp) else None


def unix_of(stamp: str) -> datetime | None:
    """``1796047200.123456``: seconds since 1970."""
    if not _SECONDS.fullmatch(stamp):
        return None
    try:
        return datetime.fromtimestamp(float(stamp), UTC)
    except (OverflowError, ValueError, OSError):
        return None


def iso_of(stamp: str) -> datetime | None:
    """``2026-11-30T14:00:00.123456+0000`` and ``Mon 2026-11-30 14:00:00 UTC``; without a zone where none is given."""
    match = _ISO.match(stamp)
    if match is None:
        return None
    zone = match["zone"] or ""
    if zone in ("Z", "UTC"):
        zone = "+00:00"
    elif zone and ":" not in zone:
        zone = f"{zone[:3]}:{zone[3:]}"
    try:
        return datetime.fromisoformat(f"{match['day']}T{match['time']}{_fraction(match['fraction'])}{zone}")
    except ValueError:
        return None


def short_of(stamp: str, now: datetime) -> datetime | None:
    """``Nov 30 14:00:00``: the latest such moment that is not to come."""
    match = _SHORT.match(stamp)
    return None if match is None else _latest(match["month"], match["day"], _clock(match), now)


def ctime_of(stamp: str, now: datetime) -> datetime | None:
    """``Mon Nov 30 14:00:00 2026``, and ``Nov30 14:00`` as ``dmesg --human`` prints it."""
    match = _CTIME.match(stamp)
    if match is not None:
        return _moment(int(match["year"]), match["month"], match["day"], _clock(match))
    match = _MINUTE.match(stamp)
    return None if match is None else _latest(match["month"], match["day"], match["time"], now)


def _clock(match: re.Match[str]) -> str:
    return match["time"] + _fraction(match["fraction"])


def _fraction(digits: str | None) -> str:
    return f".{digits[:6]:0<6}" if digits else ""


def _latest(month: str, day: str, clock: str, now: datetime) -> datetime | None:
    limit = now.replace(tzinfo=None) + timedelta(days=1)  # the log's zone is not known
    found = [_moment(year, month, day, clock) for year in range(now.year + 1, now.year - 8, -1) if year > 0]
    return next((moment for moment in found if moment is not None and moment <= limit), None)


def _moment(year: int, month: str, day: str, clock: str) -> datetime | None:
    try:
        return datetime.fromisoformat(f"{year:04d}-{_MONTHS.get(month, 0):02d}-{int(day):02d}T{clock}")
    except ValueError:
        return None
