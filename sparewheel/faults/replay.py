"""A recorded kernel log through the agent's own reader and judge: which faults it holds and what each asks for. Pure.

One fault for each line that tells one; a fault told in several lines stands at the line that completes it. Not faults
of their own: the second form of one fall off the bus, an SXid's lines of detail, an all-clear. Repeats stand each at
its own line and are numbered (``nth``).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Final

from sparewheel.api.enums import Action, Severity
from sparewheel.faults.findings import MalformedLineError
from sparewheel.faults.judge import Judge, Verdict
from sparewheel.faults.lines import DRIVER_PREFIXES, LineReader
from sparewheel.faults.logforms import LogReader, LogRecord, elapsed

MAX_TEXT: Final = 300
BOOT_GAP_SECONDS: Final = 60.0
"""A clock since boot that falls back further than this began anew."""
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_BOOT_TEXT = "Linux version "
_TELLING = (
    *(b"NVRM: ", b"nvidia-nvswitch", b"mlx5_core", b"amdgpu", b"Linux version ", b"-- "),
    *(b'"MESSAGE":[', b'"MESSAGE": ['),
)
"""What a line that matters has; a journal's MESSAGE may be a list of numbers, which shows nothing."""


@dataclass(frozen=True, slots=True)
class ReplayedFault:
    """One fault of the log."""

    line: int
    """1-based; of a fault told in several lines the one that completes it."""
    code: str
    device: str
    action: Action
    severity: Severity
    reason: str
    time: datetime | None
    since_boot_seconds: float | None
    nth: int
    follows: str
    gpu_uuid: str
    text: str

    def as_json(self) -> dict[str, Any]:
        return {
            "line": self.line,
            "time": None if self.time is None else self.time.isoformat(),
            "since_boot_seconds": self.since_boot_seconds,
            "code": self.code,
            "device": self.device,
            "action": self.action.value,
            "reason": self.reason,
            "severity": self.severity.value,
            "count": self.nth,
            "follows": self.follows or None,
            "gpu_uuid": self.gpu_uuid or None,
            "text": self.text,
        }


class Replay:
    """Reads one log's lines in order; ``overrides``: the stack's own word on codes; ``now``: see LogReader."""

    def __init__(self, overrides: Mapping[str, Action], now: datetime) -> None:
        self._overrides = overrides
        self._log = LogReader(now)
        self._when = _EPOCH
        self._since_boot_seconds = 0.0
        self.lines = 0
        self.malformed = 0
        self.forged = 0
        """Lines of user space that say what a driver would."""
        self.behind = 0
        """Lines that tell a fault behind something that is no part of a known form."""
        self._begin_boot()

    @property
    def form(self) -> str:
        """The log's form; empty while no line was of one."""
        return self._log.form

    @property
    def unread(self) -> int:
        """Lines that are part of no record."""
        return self._log.unread

    def _begin_boot(self) -> None:
        self._lines = LineReader()
        self._judge = Judge(self._overrides)
        self._since_boot_seconds = 0.0

    def feed(self, block: bytes) -> Iterator[ReplayedFault]:
        """The faults that the next lines complete; ``block`` holds whole lines, with line ends between them."""
        start = 0
        while start <= len(block) and not self.form:
            end = _end_of_line(block, start)
            yield from self._read(block[start:end])
            start = end + 1
        for begin, end in _telling_lines(block, start):  # most of a large log tells nothing
            if begin > start:
                self._pass_over(block[start : begin - 1].split(b"\n"))
            yield from self._read(block[begin:end])
            start = end + 1
        if start <= len(block):
            self._pass_over(block[start:].split(b"\n"))

    def _pass_over(self, lines: Sequence[bytes]) -> None:
        self.lines += len(lines)
        self._log.pass_over(lines)

    def _read(self, line: bytes) -> Iterator[ReplayedFault]:
        self.lines += 1
        record = self._log.read(line.decode("utf-8", "replace").removesuffix("\r"))
        if record is None:
            return
        self._keep_time(record)
        for text in record.text.split("\n"):
            if text.startswith(DRIVER_PREFIXES):
                yield from self._take(record, text)
            elif record.kernel:
                self.behind += _tells_a_fault_behind(text)

    def _keep_time(self, record: LogRecord) -> None:
        since = record.since_boot_seconds
        fell_back = since is not None and since < self._since_boot_seconds - BOOT_GAP_SECONDS
        if record.new_boot or fell_back or (record.kernel and record.text.startswith(_BOOT_TEXT)):
            self._begin_boot()
        self._since_boot_seconds = self._since_boot_seconds if since is None else since
        self._when = elapsed(record, _EPOCH) or self._when

    def _take(self, record: LogRecord, text: str) -> Iterator[ReplayedFault]:
        if not record.kernel:
            self.forged += _tells_a_fault(text)
            return
        try:
            finding = self._lines.read(text)
        except MalformedLineError:
            self.malformed += 1
            return
        if finding is None:
            return
        verdict = self._judge.judge(finding, self._when)
        if not verdict.same_event:
            yield self._fault(record, text, verdict, finding.gpu_uuid)

    def _fault(self, record: LogRecord, text: str, verdict: Verdict, gpu_uuid: str) -> ReplayedFault:
        fault = verdict.fault
        return ReplayedFault(
            line=self.lines,
            code=fault.code,
            device=fault.device,
            action=fault.action,
            severity=fault.severity,
            reason=verdict.reason,
            time=record.time,
            since_boot_seconds=record.since_boot_seconds,
            nth=verdict.nth,
            follows=verdict.follows,
            gpu_uuid=gpu_uuid,
            text=text[:MAX_TEXT],
        )


def _end_of_line(block: bytes, start: int) -> int:
    end = block.find(b"\n", start)
    return len(block) if end < 0 else end


def _telling_lines(block: bytes, start: int) -> list[tuple[int, int]]:
    """Where each line that has a telling word begins and ends, in order."""
    found: set[tuple[int, int]] = set()
    for word in _TELLING:
        at = block.find(word, start)
        while at >= 0:
            end = _end_of_line(block, at)
            found.add((block.rfind(b"\n", start, at) + 1 or start, end))
            at = block.find(word, end)
    return sorted(found)


def _tells_a_fault(text: str) -> bool:
    try:
        return LineReader().read(text) is not None
    except MalformedLineError:
        return True


def _tells_a_fault_behind(text: str) -> bool:
    places = (text.find(prefix) for prefix in DRIVER_PREFIXES)
    return any(_tells_a_fault(text[place:]) for place in places if place > 0)
