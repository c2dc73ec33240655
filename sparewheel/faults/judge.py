"""What a fault asks for, given what the same device had before: repeats, two forms of one event, consequences. Pure.

* A fall off the bus is told in two forms, with XID 79 and without: on one device that is one fault.
* Some faults are printed as the consequence of another (XID 45 after every other, 94 and 95 after 48). After a fault of
  the same device that asks for at least as much, they are recorded and ask for nothing of their own.
* A fault and what comes soon after are one burst; a sticky one (XIDs 74, 79, 95, 109, 119) holds its burst open for
  hours.

State is bounded, whatever the log holds.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Final

from sparewheel.api.enums import Action, FaultSource, Severity
from sparewheel.api.names import CODE_GPU_OFF_BUS
from sparewheel.faults.catalogue import Rule, apply_override, rule_of
from sparewheel.faults.classify import RANKS, OpenFault, fault_of
from sparewheel.faults.findings import Finding

BURST_SECONDS: Final = 180.0
"""A fault this long after the last one of its burst begins a new burst (NVSentinel's burst gap)."""
STICKY_SECONDS: Final = 3 * 3600.0
"""The same after a sticky one (NVSentinel's sticky XIDs)."""
MAX_DEVICES: Final = 256
MAX_CODES: Final = 32
"""Codes remembered a device."""
_OFF_BUS: Final = ("XID 79", CODE_GPU_OFF_BUS)


@dataclass(slots=True)
class _Past:
    """What one device had of one code."""

    code: str
    action: Action
    sticky: bool
    last: datetime
    count: int
    consequence: bool

    def holds(self, when: datetime) -> bool:
        """Whether something at ``when`` still belongs to this one's burst."""
        return (when - self.last).total_seconds() <= (STICKY_SECONDS if self.sticky else BURST_SECONDS)


@dataclass(frozen=True, slots=True)
class Verdict:
    """A fault with its action, and why that one."""

    fault: OpenFault
    reason: str
    nth: int
    """Which one of its code and device in this burst; 1 is the first."""
    same_event: bool = False
    """Another form of the fault just before, under whose code it counts: not a fault of its own."""
    follows: str = ""
    """Code of the fault whose consequence this is."""


class Judge:
    """Judges findings in the order of the log. ``overrides``: the stack's own word on codes."""

    def __init__(self, overrides: Mapping[str, Action]) -> None:
        self._overrides = overrides
        self._past: dict[str, dict[str, _Past]] = {}

    def resume(self, faults: Sequence[OpenFault]) -> None:
        """Go on from faults that an earlier judge of the same boot found."""
        for fault in faults:
            if fault.source is FaultSource.KERNEL_LOG:
                rule = rule_of(fault.code)
                consequence = rule.sympathetic and RANKS[fault.action] <= RANKS[Action.RECORD]
                past = _Past(fault.code, fault.action, rule.sticky, fault.last_seen, fault.count, consequence)
                self._remember(fault.device, past)

    def judge(
        self,
        finding: Finding,
        when: datetime,
        *,
        gpu_index: int | None = None,
        drill: bool = False,
        job_id: int | None = None,
    ) -> Verdict:
        """``when``: the fault's own time. ``job_id``: the job it hit, where only one can have been."""
        known = self._past.get(finding.device, {})
        code = next((other for other in _other_forms(finding.code) if other in known and known[other].holds(when)), "")
        same_event = bool(code)
        if same_event:
            finding = replace(finding, code=code)
        rule = apply_override(
            finding.code,
            rule_of(finding.code, fatal=finding.fatal, recovery_code=finding.recovery_code),
            self._overrides,
        )
        cause = self._cause(finding, rule, when) if rule.sympathetic else None
        if cause is not None:
            rule = _consequence(rule, cause)
        past = known.get(finding.code)
        count = past.count + 1 if past is not None and past.holds(when) else 1
        self._remember(finding.device, _Past(finding.code, rule.action, rule.sticky, when, count, cause is not None))
        return Verdict(
            fault=fault_of(finding, rule, now=when, gpu_index=gpu_index, drill=drill, job_id=job_id),
            reason=f"{rule.meaning}; {rule.source}",
            nth=count,
            same_event=same_event,
            follows="" if cause is None else cause.code,
        )

    def _cause(self, finding: Finding, rule: Rule, when: datetime) -> _Past | None:
        """The fault whose consequence this is; one that asks for less than this can't stand for it."""
        causes = [
            past
            for past in self._of(finding.device)
            if past.code != finding.code
            and not past.consequence
            and past.holds(when)
            and RANKS[past.action] >= RANKS[rule.action]
        ]
        return max(causes, key=lambda past: (RANKS[past.action], past.last), default=None)

    def _of(self, device: str) -> Iterable[_Past]:
        """A fault that names no device may be anyone's consequence."""
        if device:
            return self._past.get(device, {}).values()
        return [past for codes in self._past.values() for past in codes.values()]

    def _remember(self, device: str, past: _Past) -> None:
        codes = self._past.pop(device, {})
        codes.pop(past.code, None)
        codes[past.code] = past
        self._past[device] = codes  # at the end: the one not heard of for longest stands first
        if len(codes) > MAX_CODES:
            del codes[_least(codes)]
        if len(self._past) > MAX_DEVICES:
            del self._past[next(iter(self._past))]


def _other_forms(code: str) -> Iterable[str]:
    return [other for other in _OFF_BUS if other != code] if code in _OFF_BUS else []


def _least(codes: Mapping[str, _Past]) -> str:
    """The mildest, and of those the oldest."""
    return min(codes, key=lambda code: (RANKS[codes[code].action], codes[code].last))


def _consequence(rule: Rule, cause: _Past) -> Rule:
    action = min(rule.action, Action.RECORD, key=lambda action: RANKS[action])
    severity = Severity.INFO if action is Action.IGNORE else Severity.WARNING
    source = f"follows {cause.code} ({cause.action}) and is its consequence, so it asks for nothing of its own"
    return Rule(action, severity, rule.meaning, source, rule.sympathetic, rule.sticky)
