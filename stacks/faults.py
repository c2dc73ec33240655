"""What a stack or a pool says about a fault: an action alone (``XID 63: replace``), or settings of its own."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Final, cast

from pydantic import AfterValidator, BeforeValidator, Field

from sparewheel.api.fault_policy import FaultPolicy, RepeatRule
from sparewheel.api.faults import Action
from sparewheel.api.names import MEASURED_CODES, NODE_CODES
from sparewheel.faults.catalogue import is_code, known_xids, named_codes, rule_of
from sparewheel.faults.patterns import is_code_or_pattern
from sparewheel.remediation.decide.policy import rules_for
from stacks.base import Area
from stacks.explain import shown

CODES: Final = (*named_codes(), *MEASURED_CODES, *NODE_CODES)
"""Fault codes beside the XIDs whose action a stack may choose."""
LOST_ACTIONS: Final = frozenset({Action.IGNORE, Action.RECORD, Action.CORDON, Action.REPLACE})


class Repeat(Area):
    """The same fault of the same device, again and again."""

    count: int = Field(ge=2, le=16, description="this many times")
    window_seconds: int = Field(ge=1, description="within this time")
    distinct_jobs: bool = Field(default=False, description="count the jobs that it hit, not how often it was seen")
    burst_gap_seconds: int = Field(default=0, ge=0, description="what is no further apart counts once")
    action: Action = Field(description="what is done then, such as replace")


class FaultRule(Area):
    """What is done about one fault; what is left out comes from the next wider rule."""

    action: Action | None = None
    detect_only: bool | None = Field(default=None, description="recorded and told, never acted on")
    dry_run: bool | None = Field(default=None, description="the record says what would be done")
    repeats: list[Repeat] | None = None


def _whole_rules(raw: object) -> object:
    """``XID 63: replace`` is short for ``XID 63: {action: replace}``."""
    if not isinstance(raw, dict):
        return raw
    rules = cast("dict[object, object]", raw)
    return {code: {"action": rule} if isinstance(rule, str) else rule for code, rule in rules.items()}


def _known_codes(rules: dict[str, FaultRule]) -> dict[str, FaultRule]:
    for code, rule in rules.items():
        if not is_code_or_pattern(code, CODES):
            msg = (
                f"{shown(code)} is no fault code; write 'XID 63', 'SXID 20034', 'XID *' for all XIDs, "
                f"or one of {', '.join(CODES)}"
            )
            raise ValueError(msg)
        actions = [rule.action, *(repeat.action for repeat in rule.repeats or [])]
        wrong = [action for action in actions if action is not None and action not in LOST_ACTIONS]
        if code in NODE_CODES and wrong:
            msg = f"{code}: {wrong[0]} can't reach a host that doesn't answer; choose record, cordon or replace"
            raise ValueError(msg)
    return rules


FaultRules = Annotated[dict[str, FaultRule], BeforeValidator(_whole_rules), AfterValidator(_known_codes)]
"""By fault code or pattern."""


def fault_policies(rules: Mapping[str, FaultRule]) -> list[FaultPolicy]:
    """As the cluster is told."""
    return [
        FaultPolicy(
            code=code,
            action=rule.action,
            detect_only=rule.detect_only,
            dry_run=rule.dry_run,
            repeats=None if rule.repeats is None else [RepeatRule(**dict(repeat)) for repeat in rule.repeats],
        )
        for code, rule in rules.items()
    ]


def agent_overrides(pool: Mapping[str, FaultRule], stack: Mapping[str, FaultRule]) -> dict[str, Action]:
    """One table for the agents of a pool, in which the closest match says what the controller's ``ruling`` says.

    A fault that is to be ignored unless it repeats is recorded, or nobody would see that it does.
    """
    found: dict[str, Action] = {}
    of_pool, of_stack = fault_policies(pool), fault_policies(stack)
    for code in {**pool, **stack, **dict.fromkeys(_ignored())}:
        rules = [rule for _, rule in rules_for(code, of_pool, of_stack)]
        action = next((rule.action for rule in rules if rule.action is not None), None)
        repeats = next((rule.repeats for rule in rules if rule.repeats is not None), None)
        if repeats and (action or _catalogued(code)) is Action.IGNORE:
            action = Action.RECORD
        if action is not None:
            found[code] = action
    return found


def _catalogued(code: str) -> Action | None:
    return rule_of(code).action if is_code(code) else None


def _ignored() -> list[str]:
    codes = [*(f"XID {number}" for number in known_xids()), *named_codes()]
    return [code for code in codes if rule_of(code).action is Action.IGNORE]
