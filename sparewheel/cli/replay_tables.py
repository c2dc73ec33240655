"""A replayed log as a table: one row for each code and device with how often it came. Pure; bounded for any log."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Final

from rich.table import Table
from rich.text import Text

from sparewheel.api.enums import Action, NodeActionKind
from sparewheel.faults.replay import ReplayedFault
from sparewheel.remediation.decide.rung_words import kind_words

MAX_ROWS: Final = 500
ACTS: Final = frozenset({Action.RESET_GPU, Action.REBOOT, Action.REPLACE})
_STYLES = {Action.RESTART_JOB: "yellow", Action.IGNORE: "dim"} | dict.fromkeys(ACTS, "red")


@dataclass(slots=True)
class _Row:
    file: str
    first: ReplayedFault
    times: int = 1


@dataclass(slots=True)
class Found:
    """What a log, or several, held so far."""

    rungs: Sequence[NodeActionKind] = ()
    """The ladder that the stack has."""
    faults: int = 0
    rows: dict[tuple[str, str, str, Action], _Row] = field(default_factory=dict[tuple[str, str, str, Action], _Row])
    left_out: int = 0
    strikes: list[tuple[str, ReplayedFault]] = field(default_factory=list[tuple[str, ReplayedFault]])
    """The first fault of each log that asks for the node."""

    def add(self, file: str, fault: ReplayedFault) -> None:
        self.faults += 1
        if fault.action in ACTS and not any(name == file for name, _ in self.strikes):
            self.strikes.append((file, fault))
        key = (file, fault.code, fault.device, fault.action)
        if key in self.rows:
            self.rows[key].times += 1
        elif len(self.rows) < MAX_ROWS:
            self.rows[key] = _Row(file, fault)
        else:
            self.left_out += 1

    def table(self) -> Table:
        several = len({row.file for row in self.rows.values()}) > 1
        table = Table()
        for name in (*(["file"] if several else []), "line", "when", "code", "device", "action", "times", "why"):
            table.add_column(name, no_wrap=name not in ("file", "when", "why"))
        for row in self.rows.values():
            fault = row.first
            cells: Sequence[str | Text] = (
                str(fault.line),
                _when(fault),
                fault.code,
                Text(fault.device or "-"),
                Text(fault.action.value, style=_STYLES.get(fault.action, "")),
                str(row.times),
                Text(fault.reason),
            )
            table.add_row(*((Text(row.file), *cells) if several else cells))
        return table

    def sentences(self) -> list[str]:
        """What would have been done."""
        said = [
            f"{file}: at line {fault.line} ({fault.code} on {fault.device or 'the node'}) the node would have been "
            f"fenced, its jobs told to save and requeued, {self._then(fault)}; the fault asks for {fault.action}."
            for file, fault in self.strikes
        ]
        more = [f"{self.left_out} more faults of other codes and devices."] if self.left_out else []
        return [*(said or ["No fault asks for the node: nothing would have been done but the record."]), *more]

    def _then(self, fault: ReplayedFault) -> str:
        tried = kind_words(fault.action, self.rungs)
        first = f"the node mended where it is ({tried}) and replaced where that does not help"
        return first if tried else "the node replaced"


def _when(fault: ReplayedFault) -> str:
    if isinstance(fault.time, datetime):
        return fault.time.isoformat(sep=" ", timespec="seconds")
    return "-" if fault.since_boot_seconds is None else f"{fault.since_boot_seconds:.3f} s"
