"""The fault catalogue: every fault code with our action, its severity and where the rule comes from.

The rows are data, ``catalogue.json``, and each can be overridden by a stack. Where they come from: XIDs from NVIDIA's
XID catalogue (``immediate`` is its word, ``source`` says why ours differs), SXids from NVIDIA's Fabric Manager guide
and the classes that GPUd keeps, the rest from the drivers' own words.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache, lru_cache
from importlib import resources
from typing import TypeVar

import msgspec

from sparewheel.api.enums import Action, Severity
from sparewheel.faults.patterns import closest_first

_NUMBERED = re.compile(r"(?:XID|SXID) (?:0|[1-9][0-9]{0,8})")


@dataclass(frozen=True, slots=True)
class XidRow:
    """XIDs ``first`` to ``last`` (both included)."""

    first: int
    last: int
    meaning: str
    action: Action
    severity: Severity
    immediate: str
    """The catalogue's immediate action, by its own name; ``NONE`` where it has none."""
    source: str
    """Where the rule comes from: the catalogue's immediate action, and ours where we differ and why."""
    fatal_action: Action | None = None
    """Action when the driver prints ``Fatal`` in the line (NVLink 5, XIDs 144 to 150)."""
    sympathetic: bool = False
    """Printed as the consequence of another fault; then it has no action of its own."""
    sticky: bool = False
    """What comes after it, for hours, still belongs to it."""
    recovery_follows: bool = False
    """The driver may print XID 154 after it, which says what it asks for."""


@dataclass(frozen=True, slots=True)
class SxidRow:
    """SXids ``first`` to ``last`` (both included), for lines without a printed class."""

    first: int
    last: int
    fatal: bool
    meaning: str


@dataclass(frozen=True, slots=True)
class SxidClass:
    fatal: bool
    meaning: str
    action: Action
    severity: Severity
    source: str


@dataclass(frozen=True, slots=True)
class OtherRow:
    """A fault code that is neither an XID nor an SXid."""

    code: str
    meaning: str
    action: Action
    severity: Severity
    source: str
    sympathetic: bool = False
    sticky: bool = False


@dataclass(frozen=True, slots=True)
class Rule:
    """What a fault code asks for."""

    action: Action
    severity: Severity
    meaning: str
    source: str
    sympathetic: bool = False
    sticky: bool = False


UNKNOWN = Rule(Action.RECORD, Severity.WARNING, "not in the catalogue", "unknown codes are recorded, never acted on")

RECOVERY_ACTIONS: Mapping[int, Rule] = {
    0x0: Rule(Action.RECORD, Severity.INFO, "recovery action: none", "XID 154, hex code 0x0"),
    0x1: Rule(Action.RESET_GPU, Severity.CRITICAL, "recovery action: GPU reset required", "XID 154, hex code 0x1"),
    0x2: Rule(Action.REBOOT, Severity.CRITICAL, "recovery action: node reboot required", "XID 154, hex code 0x2"),
    0x3: Rule(Action.RECORD, Severity.WARNING, "recovery action: drain peer-to-peer traffic", "XID 154, hex code 0x3"),
    0x4: Rule(Action.RESET_GPU, Severity.CRITICAL, "recovery action: drain and reset", "XID 154, hex code 0x4"),
}
"""XID 154 prints a code and a text; drivers vary the text, so the code decides."""


_Row = TypeVar("_Row", XidRow, SxidRow)


class _Catalogue(msgspec.Struct, forbid_unknown_fields=True):
    xids: list[XidRow]
    sxids: list[SxidRow]
    sxid_classes: list[SxidClass]
    others: list[OtherRow]


@dataclass(frozen=True, slots=True)
class _Tables:
    xids: Mapping[int, XidRow]
    sxids: Mapping[int, SxidRow]
    sxid_classes: Mapping[bool, SxidClass]
    others: Mapping[str, OtherRow]


@cache
def _tables() -> _Tables:
    text = resources.files("sparewheel.faults").joinpath("catalogue.json").read_text("utf-8")
    rows = msgspec.json.decode(text, type=_Catalogue)
    return _Tables(
        xids=_by_number(rows.xids, "XID"),
        sxids=_by_number(rows.sxids, "SXID"),
        sxid_classes={row.fatal: row for row in rows.sxid_classes},
        others={row.code: row for row in rows.others},
    )


def _by_number(rows: Sequence[_Row], kind: str) -> dict[int, _Row]:
    table: dict[int, _Row] = {}
    for row in rows:
        for number in range(row.first, row.last + 1):
            if number in table:
                raise ValueError(f"catalogue.json: {kind} {number} stands twice; keep one row")
            table[number] = row
    return table


def xid_rows() -> Mapping[int, XidRow]:
    """Every XID of the catalogue."""
    return _tables().xids


def sxid_rows() -> Mapping[int, SxidRow]:
    """Every SXid of the catalogue."""
    return _tables().sxids


def known_xids() -> list[int]:
    """All XIDs of the catalogue, ascending."""
    return sorted(_tables().xids)


def named_codes() -> list[str]:
    """Codes of the catalogue that are no numbers: ``GPU_OFF_BUS``, ``MLX5_FATAL``, ..."""
    return list(_tables().others)


def is_code(code: str) -> bool:
    """Whether a line of a kernel log can have this code: any XID or SXid, or one of the named."""
    return code in _tables().others or _NUMBERED.fullmatch(code) is not None


@lru_cache(maxsize=1024)
def rule_of(code: str, *, fatal: bool | None = None, recovery_code: int | None = None) -> Rule:
    """The rule for a code. ``fatal``: the class that the line prints, None where it prints none; ``recovery_code``: the
    hex code of an XID 154."""
    kind, _, number = code.partition(" ")
    if kind == "XID":
        return xid_rule(int(number), fatal=bool(fatal), recovery_code=recovery_code)
    if kind == "SXID":
        return _sxid_rule(int(number), fatal)
    row = _tables().others.get(code)
    return UNKNOWN if row is None else _rule(row)


def _rule(row: XidRow | OtherRow) -> Rule:
    return Rule(row.action, row.severity, row.meaning, row.source, row.sympathetic, row.sticky)


def _sxid_rule(number: int, fatal: bool | None) -> Rule:
    row = _tables().sxids.get(number)
    if row is None and fatal is None:
        return UNKNOWN
    known = _tables().sxid_classes[fatal if fatal is not None else row is not None and row.fatal]
    return Rule(known.action, known.severity, row.meaning if row is not None else known.meaning, known.source)


def xid_rule(code: int, *, fatal: bool = False, recovery_code: int | None = None) -> Rule:
    """The rule for an XID. ``fatal``: the line says Fatal; ``recovery_code``: the hex code of an XID 154."""
    if code == 154:
        if recovery_code is None:
            return Rule(Action.RECORD, Severity.WARNING, "recovery action changed, code unreadable", "XID 154")
        return RECOVERY_ACTIONS.get(
            recovery_code,
            Rule(Action.RECORD, Severity.WARNING, f"unknown recovery action {recovery_code:#x}", "XID 154"),
        )
    row = _tables().xids.get(code)
    if row is None:
        return UNKNOWN
    if fatal and row.fatal_action is not None:
        return Rule(row.fatal_action, Severity.CRITICAL, row.meaning, row.source)
    return _rule(row)


def apply_override(code: str, rule: Rule, overrides: Mapping[str, Action]) -> Rule:
    """The stack's own word on a fault code wins over the catalogue: the code itself, else the longest pattern."""
    closest = closest_first(overrides, code)
    if not closest:
        return rule
    action = overrides[closest[0]]
    severe = (Action.CORDON, Action.RESET_GPU, Action.REBOOT, Action.REPLACE)
    severity = Severity.CRITICAL if action in severe else rule.severity
    return Rule(action, severity, rule.meaning, "overridden by this stack", rule.sympathetic, rule.sticky)
