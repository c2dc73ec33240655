"""Faults that somebody else found: Node conditions of node-problem-detector, NVSentinel and the like, by rules. Pure.

A condition is dated by its ``lastTransitionTime``, so every controller sees the same fault. One that came when the
node's own agent found a fault that takes the node out of work tells the same event, and is no second fault.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from datetime import timedelta
from typing import Final

from sparewheel.api.enums import Action, FaultSource, Severity
from sparewheel.api.faults import Fault
from sparewheel.api.node_conditions import NodeConditionRule
from sparewheel.remediation.decide.observations import ConditionView

SAME_EVENT: Final = timedelta(seconds=300)
"""Others look every half minute to every few minutes; the agent within a second."""
TAKES_THE_NODE: Final = frozenset({Action.RESET_GPU, Action.REBOOT, Action.REPLACE})
MAX_MESSAGE_CHARACTERS: Final = 300


def condition_faults(
    conditions: Iterable[ConditionView],
    rules: Sequence[NodeConditionRule],
    agents: Collection[Fault] = (),
    known: Collection[tuple[str, str]] = (),
) -> tuple[Fault, ...]:
    """``agents``: what the node's agent reports. ``known``: code and device of faults that have an incident already."""
    found: list[Fault] = []
    for condition in conditions:
        rule = next((rule for rule in rules if _meant(rule, condition)), None)
        if rule is None:
            continue
        fault = _fault(rule, condition)
        if (fault.code, fault.device) in known or not any(_same_event(fault, other) for other in agents):
            found.append(fault)
    return tuple(found)


def _meant(rule: NodeConditionRule, condition: ConditionView) -> bool:
    same = (rule.type, rule.status) == (condition.type, condition.status)
    return same and rule.reason in ("", condition.reason)


def _fault(rule: NodeConditionRule, condition: ConditionView) -> Fault:
    because = f" ({condition.reason})" if condition.reason else ""
    text = f"Node condition {condition.type} is {condition.status}{because}: {condition.message}"
    return Fault(
        code=rule.fault_code,
        action=rule.action,
        severity=Severity.CRITICAL if rule.action in TAKES_THE_NODE else Severity.WARNING,
        source=FaultSource.NODE_CONDITION,
        first_seen=condition.since,
        last_seen=condition.since,
        message=text[:MAX_MESSAGE_CHARACTERS],
    )


def _same_event(fault: Fault, other: Fault) -> bool:
    if other.code != fault.code and other.action not in TAKES_THE_NODE:
        return False
    return other.first_seen - SAME_EVENT <= fault.first_seen <= other.last_seen + SAME_EVENT
