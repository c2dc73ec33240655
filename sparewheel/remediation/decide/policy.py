"""What a fault asks for in this cluster: the pool's word over the stack's over the catalogue's. Pure.

Precedence, for each field by itself: a pool's rules before the stack's; within one place the exact code before a
pattern, a longer pattern before a shorter one; at last the action that the agent took from the fault catalogue.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import timedelta
from itertools import pairwise
from typing import Final

from sparewheel.api.fault_policy import FaultPolicy, RepeatRule
from sparewheel.api.faults import Action, Fault, Sighting
from sparewheel.faults.patterns import closest_first

ACTING: Final = frozenset({Action.RESTART_JOB, Action.CORDON, Action.RESET_GPU, Action.REBOOT, Action.REPLACE})
"""Actions that open an incident."""
HEALING: Final = frozenset({Action.RESET_GPU, Action.REBOOT, Action.REPLACE})
"""Actions that take the node from its jobs and make it, or another in its place, whole again."""
_MILDEST_FIRST: Final = list(Action)


def severity(action: Action) -> int:
    """Larger is more severe."""
    return _MILDEST_FIRST.index(action)


@dataclass(frozen=True, slots=True)
class Ruling:
    action: Action
    detect_only: bool = False
    dry_run: bool = False
    because: str = ""
    """Which rule decided, in words."""


def ruling(fault: Fault, pool: Sequence[FaultPolicy], stack: Sequence[FaultPolicy]) -> Ruling:
    """``pool``, ``stack``: the rules of the node's pool and of the whole cluster."""
    rules = rules_for(fault.code, pool, stack)
    action, because = fault.action, "the fault catalogue"
    for place, rule in rules:
        if rule.action is not None:
            action, because = rule.action, f"{place}'s rule for {rule.code}"
            break
    for place, rule in rules:
        if rule.repeats is not None:
            for repeat in rule.repeats:
                if severity(repeat.action) > severity(action) and repeated(fault, repeat):
                    action, because = repeat.action, f"{place}'s rule for {rule.code}: {repeat_words(repeat)}"
            break
    return Ruling(
        action,
        detect_only=next((rule.detect_only for _, rule in rules if rule.detect_only is not None), False),
        dry_run=next((rule.dry_run for _, rule in rules if rule.dry_run is not None), False),
        because=because,
    )


def rules_for(code: str, pool: Sequence[FaultPolicy], stack: Sequence[FaultPolicy]) -> list[tuple[str, FaultPolicy]]:
    """Those that match a code, or a pattern, in the order of their precedence, and where each stands."""
    return [
        *(("this pool", rule) for rule in _closest(pool, code)),
        *(("this stack", rule) for rule in _closest(stack, code)),
    ]


def _closest(rules: Sequence[FaultPolicy], code: str) -> list[FaultPolicy]:
    by_code = {rule.code: rule for rule in rules}
    return [by_code[pattern] for pattern in closest_first(by_code, code)]


def repeated(fault: Fault, rule: RepeatRule) -> bool:
    """Does the fault's own history fulfil the rule? A report without sightings counts as one."""
    if not fault.recent:
        return False
    since = max(sighting.time for sighting in fault.recent) - timedelta(seconds=rule.window_seconds)
    within = sorted((s for s in fault.recent if s.time >= since), key=lambda sighting: sighting.time)
    if rule.distinct_jobs:
        return len({s.job_id for s in within if s.job_id is not None}) >= rule.count
    return _bursts(within, rule.burst_gap_seconds) >= rule.count


def _bursts(sightings: Sequence[Sighting], gap_seconds: int) -> int:
    if gap_seconds == 0:
        return sum(sighting.count for sighting in sightings)
    gap = timedelta(seconds=gap_seconds)
    apart = sum(later.time - earlier.time > gap for earlier, later in pairwise(sightings))
    return apart + bool(sightings)


def repeat_words(rule: RepeatRule) -> str:
    """``3 times within 600 s``."""
    what = "under different jobs " if rule.distinct_jobs else ""
    return f"{rule.count} times {what}within {rule.window_seconds} s"


def planned_action(faults: Sequence[Fault]) -> Action:
    """What an incident with these faults does: what its most severe fault asks for."""
    return max((fault.action for fault in faults), key=severity)
