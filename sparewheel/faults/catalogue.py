"""The fault catalogue: every XID with our action, its severity and where the rule comes from (``catalogue.json``)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from importlib import resources

import msgspec

from sparewheel.api.enums import Action, Severity


@dataclass(frozen=True, slots=True)
class XidRange:
    """One row: XIDs ``first`` to ``last`` (both included)."""

    first: int
    last: int
    meaning: str
    action: Action
    severity: Severity
    source: str
    """Where the rule comes from: the catalogue's immediate action, and ours where we differ and why."""
    fatal_action: Action | None = None
    """Action when the driver prints ``Fatal`` in the line (NVLink 5, XIDs 144 to 150)."""


@dataclass(frozen=True, slots=True)
class Rule:
    """What a fault code asks for."""

    action: Action
    severity: Severity
    meaning: str
    source: str


UNKNOWN_XID = Rule(
    Action.RECORD, Severity.WARNING, "XID not in the catalogue", "unknown codes are recorded, never acted on"
)

RECOVERY_ACTIONS: Mapping[int, Rule] = {
    0x0: Rule(Action.RECORD, Severity.INFO, "recovery action: none", "XID 154, hex code 0x0"),
    0x1: Rule(Action.RESET_GPU, Severity.CRITICAL, "recovery action: GPU reset required", "XID 154, hex code 0x1"),
    0x2: Rule(Action.REBOOT, Severity.CRITICAL, "recovery action: node reboot required", "XID 154, hex code 0x2"),
    0x3: Rule(Action.RECORD, Severity.WARNING, "recovery action: drain peer-to-peer traffic", "XID 154, hex code 0x3"),
    0x4: Rule(Action.RESET_GPU, Severity.CRITICAL, "recovery action: drain and reset", "XID 154, hex code 0x4"),
}
"""XID 154 prints a code and a text; drivers vary the text, so the code decides."""


class _Catalogue(msgspec.Struct, forbid_unknown_fields=True):
    xids: list[XidRange]


@cache
def _table() -> dict[int, XidRange]:
    text = resources.files("sparewheel.faults").joinpath("catalogue.json").read_text("utf-8")
    rows = msgspec.json.decode(text, type=_Catalogue).xids
    table: dict[int, XidRange] = {}
    for row in rows:
        for code in range(row.first, row.last + 1):
            if code in table:
                raise ValueError(f"catalogue.json: XID {code} stands twice; keep one row")
            table[code] = row
    return table


def known_xids() -> list[int]:
    """All XIDs of the catalogue, ascending."""
    return sorted(_table())


def xid_rule(code: int, *, fatal: bool = False, recovery_code: int | None = None) -> Rule:
    """The rule for an XID. ``fatal``: the line says Fatal; ``recovery_code``: the hex code of an XID 154."""
    if code == 154:
        if recovery_code is None:
            return Rule(Action.RECORD, Severity.WARNING, "recovery action changed, code unreadable", "XID 154")
        return RECOVERY_ACTIONS.get(
            recovery_code,
            Rule(Action.RECORD, Severity.WARNING, f"unknown recovery action {recovery_code:#x}", "XID 154"),
        )
    row = _table().get(code)
    if row is None:
        return UNKNOWN_XID
    if fatal and row.fatal_action is not None:
        return Rule(row.fatal_action, Severity.CRITICAL, row.meaning, row.source)
    return Rule(row.action, row.severity, row.meaning, row.source)


def apply_override(code: str, rule: Rule, overrides: Mapping[str, Action]) -> Rule:
    """The stack's own word on a fault code (``XID 63``) wins over the catalogue."""
    if code not in overrides:
        return rule
    action = overrides[code]
    severity = Severity.CRITICAL if action in (Action.RESET_GPU, Action.REBOOT, Action.REPLACE) else rule.severity
    return Rule(action, severity, rule.meaning, "overridden by this stack")
