"""Forms in which a kernel log is kept, told apart by themselves: dmesg, journalctl, records of /dev/kmsg. Pure.

* ``dmesg``, with times of any kind or none; with ``--decode`` or ``--raw`` it also says where a line came from;
* ``journalctl`` in its short forms, and what syslog writes, with its priority or without: only the identifier
  ``kernel`` without a pid is the kernel;
* ``journalctl -o json``: ``_TRANSPORT=kernel`` and the kernel's facility, both of which no process can forge;
* records of ``/dev/kmsg``, whose facility the kernel sets.

What is printed in one go may span lines: a line that begins no record goes on with the one before, with its origin.
Sources: systemd's journalctl(1), util-linux's dmesg(1), Linux's Documentation/ABI/testing/dev-kmsg.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from typing import Any, cast

import msgspec

from sparewheel.faults.kmsg import FACILITY_KERNEL, MalformedRecordError, parse_record
from sparewheel.faults.lines import DRIVER_PREFIXES
from sparewheel.faults.stamps import ISO, SHORT_STAMP, boot_seconds, ctime_of, iso_of, short_of, unix_of

_FACILITIES = "kern|user|mail|daemon|auth|syslog|lpr|news|uucp|cron|authpriv|ftp|res[0-9]|local[0-7]"
_LEVELS = "emerg|alert|crit|err|warn|notice|info|debug"
_KMSG = re.compile(r"[0-9]{1,9},[0-9]+,[0-9]+,[^;]*;")
_ORIGIN = re.compile(rf"(?:<(?P<priority>[0-9]{{1,4}})>|(?P<facility>{_FACILITIES})\s*:(?:{_LEVELS})\s*:\s)")
_BRACKET = re.compile(r"\[(?P<stamp>[^\]]{1,60})\](?:\[\s*[TC][0-9]+\])?\s?")
_DMESG_ISO = re.compile(rf"(?P<stamp>{ISO})\s")
_MONOTONIC = re.compile(r"\S+ kernel: ")
_JOURNAL = re.compile(
    rf"(?P<stamp>{SHORT_STAMP}|{ISO}|[A-Z][a-z]{{2}} [0-9]{{4}}-[0-9]{{2}}-[0-9]{{2}} [0-9:.]{{8,15}} \S{{1,6}}"
    r"|[0-9]{9,11}\.[0-9]+) (?P<host>\S+) (?P<rest>\S.*)$",
    re.DOTALL,
)
_SYSLOG_BRACKET = re.compile(r"\[\s*[0-9]+\.[0-9]+\]\s?")
_NOTE = re.compile(r"-- .* --$")
"""What journalctl says itself: where the log begins, that there are no entries."""
_OBJECT = msgspec.json.Decoder(msgspec.Raw)
_BOOT_LINE = re.compile(r"-- (?:Boot [0-9a-f]+|Reboot) --")


@dataclass(frozen=True, slots=True)
class LogRecord:
    """One record, or a further line of one. Times are None where the log doesn't tell them."""

    text: str
    kernel: bool
    """False for what user space wrote, whatever it says. True in forms that tell no origin."""
    time: datetime | None = None
    """As the log has it: without a zone where it names none."""
    since_boot_seconds: float | None = None
    new_boot: bool = False
    boot_id: str = ""


@dataclass(slots=True)
class LogReader:
    """Reads lines one after the other. ``now`` gives the year to times that have none."""

    now: datetime
    form: str = ""
    """Of the last record that was read; empty while none was."""
    unread: int = 0
    """Lines that belong to no record."""
    _last: LogRecord | None = None
    _skipped: bytes | None = None
    _boot_id: str = ""
    _parsers: dict[str, Callable[[str], LogRecord | None]] = field(init=False)

    def __post_init__(self) -> None:
        self._parsers = {
            "kmsg": _kmsg,
            "json": _json,
            "dmesg with origin": self._dmesg_with_origin,
            "dmesg": self._dmesg,
            "journal": self._journal,
            "bare": _bare,
        }

    def pass_over(self, lines: Sequence[bytes]) -> None:
        """Lines that the caller doesn't want: a later one may go on with the last record, and those of none count."""
        for line in lines:
            if self.form != "json":
                break
            if not _is_object(line) and line.strip() and self._start(line.decode("utf-8", "replace")) is None:
                self.unread += 1
        for line in reversed(lines):
            if line.strip() and not line.startswith((b" ", b"\t")):
                self._skipped = line
                return

    def read(self, line: str) -> LogRecord | None:
        """The record that begins here or goes on here; None for a line that is no part of any."""
        if not line.strip():
            return None
        if _BOOT_LINE.match(line):
            return LogRecord("", kernel=False, new_boot=True)
        if _NOTE.match(line):
            return None
        indented = line.startswith((" ", "\t"))
        record = None if indented else self._start(line)
        if record is None:
            return self._go_on(line)
        self._skipped, self._last = None, record
        if record.boot_id and record.boot_id != self._boot_id:
            record = replace(record, new_boot=self._boot_id != "")
            self._boot_id = record.boot_id
        return record

    def _start(self, line: str) -> LogRecord | None:
        for form in self._order():
            record = self._parsers[form](line)
            if record is not None:
                self.form = form
                return record
        return None

    def _order(self) -> Sequence[str]:
        """The form so far first. What tells origins doesn't change into a form that would believe a forged line."""
        refused = {"dmesg with origin": {"dmesg", "bare"}, "bare": set[str](), "": set[str]()}.get(self.form, {"bare"})
        return sorted((form for form in self._parsers if form not in refused), key=lambda form: form != self.form)

    def _go_on(self, line: str) -> LogRecord | None:
        if self._skipped is not None:
            skipped, self._skipped = self._skipped, None
            self._last = self._start(skipped.decode("utf-8", "replace"))
        indented = line.startswith((" ", "\t"))
        if self._last is None or self.form in ("kmsg", "json") or (self.form == "journal" and not indented):
            self.unread += not (self.form == "kmsg" and indented)  # a record's dictionary
            return None
        return replace(self._last, text=line.strip())

    def _dmesg_with_origin(self, line: str) -> LogRecord | None:
        origin = _ORIGIN.match(line)
        if origin is None:
            return None
        by_number = origin["priority"] is not None
        kernel = int(origin["priority"]) >> 3 == FACILITY_KERNEL if by_number else origin["facility"] == "kern"
        rest = line[origin.end() :]
        record = self._dmesg(rest) or self._journal(rest) or LogRecord(rest, kernel=True)
        return replace(record, kernel=kernel and record.kernel)

    def _dmesg(self, line: str) -> LogRecord | None:
        iso = _DMESG_ISO.match(line)
        if iso is not None and "," in iso["stamp"]:
            return LogRecord(line[iso.end() :], kernel=True, time=iso_of(iso["stamp"]))
        bracket = _BRACKET.match(line)
        if bracket is None:
            return None
        stamp = bracket["stamp"].partition("<")[0].strip()
        rest = line[bracket.end() :]
        seconds = boot_seconds(stamp)
        if seconds is not None:
            host = _MONOTONIC.match(rest)  # journalctl -o short-monotonic
            return LogRecord(rest[host.end() :] if host else rest, kernel=True, since_boot_seconds=seconds)
        if stamp.startswith("+") and boot_seconds(stamp[1:]) is not None:
            return LogRecord(rest, kernel=True)
        time = ctime_of(stamp, self.now)
        return None if time is None else LogRecord(rest, kernel=True, time=time)

    def _journal(self, line: str) -> LogRecord | None:
        match = _JOURNAL.match(line)
        if match is None:
            return None
        stamp, rest = match["stamp"], match["rest"]
        time = short_of(stamp, self.now) or iso_of(stamp) or unix_of(stamp)
        if not rest.startswith("kernel:"):
            return LogRecord(rest.partition(": ")[2], kernel=False, time=time)
        text = rest.removeprefix("kernel:").lstrip(" ")
        return LogRecord(text[bracket.end() :] if (bracket := _SYSLOG_BRACKET.match(text)) else text, True, time)


def _bare(line: str) -> LogRecord | None:
    """A driver's line with nothing before it, as ``dmesg --notime`` prints it."""
    return LogRecord(line, kernel=True) if line.startswith(DRIVER_PREFIXES) else None


def _kmsg(line: str) -> LogRecord | None:
    if _KMSG.match(line) is None:
        return None
    try:
        record = parse_record(line)
    except MalformedRecordError:
        return None
    text = "\n".join(record.texts)
    return LogRecord(text, record.from_kernel, since_boot_seconds=record.since_boot_us / 1e6)


def _is_object(line: bytes) -> bool:
    line = line.lstrip(b"\x1e")
    try:
        _OBJECT.decode(line)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return False
    return line.startswith(b"{")


def _json(line: str) -> LogRecord | None:
    """One object a line. A field that stands several times is a list; bytes that are no text are a list of numbers."""
    line = line.lstrip("\x1e")
    if not line.startswith("{"):
        return None
    try:
        fields: Any = msgspec.json.decode(line)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return None
    if not isinstance(fields, dict) or not {"MESSAGE", "_TRANSPORT", "__REALTIME_TIMESTAMP"} & fields.keys():
        return None
    values = cast("dict[str, Any]", fields)
    kernel = (
        values.get("_TRANSPORT") == "kernel"
        and str(values.get("SYSLOG_FACILITY", FACILITY_KERNEL)) == str(FACILITY_KERNEL)
        and values.get("SYSLOG_IDENTIFIER", "kernel") == "kernel"
    )
    micros = _number(values.get("__REALTIME_TIMESTAMP"))
    since = _number(values.get("_SOURCE_MONOTONIC_TIMESTAMP", values.get("__MONOTONIC_TIMESTAMP")))
    return LogRecord(
        text=_message(values.get("MESSAGE")),
        kernel=kernel,
        time=unix_of(str(micros / 1e6)) if micros is not None else None,
        since_boot_seconds=None if since is None else since / 1e6,
        boot_id=str(values.get("_BOOT_ID", "")),
    )


def _number(value: object) -> float | None:
    return float(value) if isinstance(value, int | str) and re.fullmatch(r"[0-9]{1,18}", str(value)) else None


def _message(value: object) -> str:
    if isinstance(value, list):
        parts = cast("list[object]", value)
        if all(isinstance(part, int) and 0 <= part < 256 for part in parts):
            return bytes(cast("list[int]", parts)).decode("utf-8", "replace")
        return str(parts[0]) if parts else ""
    return value if isinstance(value, str) else ""


def elapsed(record: LogRecord, epoch: datetime) -> datetime | None:
    """A time to measure gaps with: the record's own, or its seconds after ``epoch``; None where it has neither."""
    if record.time is not None:
        return record.time if record.time.tzinfo is not None else record.time.replace(tzinfo=epoch.tzinfo)
    if record.since_boot_seconds is None:
        return None
    return epoch + timedelta(seconds=min(record.since_boot_seconds, 3e9))
