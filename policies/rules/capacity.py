"""Spares, limits on healing, drills, protection: what a pool needs to be healed, and no more than that."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from datetime import datetime, timedelta
from typing import Any, Final

from policies.model import Found, Given, Level, Resource, Rule
from policies.values import at, fields, is_record, number, of_kind, spec, text
from sparewheel.remediation.decide.spare_need import failure_rate, lead_time_days, spares_needed

DRILL_EVERY: Final = timedelta(days=30)
_CONFIDENCE: Final = 0.999
_HOLDS_MACHINES: Final = ("PoolCapacity", "GpuPool", "CrusoeNodePool")


def pool_has_a_spare(resource: Resource, _given: Given) -> Iterator[str]:
    """A pool that takes work has a spare."""
    body = spec(resource)
    if resource.kind == "GpuPool" and (number(body, "size") or 0) > 0 and (number(body, "spares") or 0) < 1:
        yield f"pool {resource.name}: has no spare, so a bad node can't be replaced; set spares to 1 or more"


def spares_meet_the_need(resource: Resource, given: Given) -> Iterator[str]:
    """A pool has as many spares as its failures ask for."""
    body = spec(resource)
    have, size = number(body, "spares") or 0, number(body, "size")
    if resource.kind != "GpuPool" or size is None or have < 1:  # no spare at all is the other rule's finding
        return
    measured = given.spares_needed.get(resource.name)
    need = unmeasured_need(body) if measured is None else measured
    how = "by the failures of other fleets" if measured is None else "by its own failures"
    if have < need:
        yield (
            f"pool {resource.name}: has {have:g} spare(s) for {size:g} nodes and needs {need} {how}; "
            f"set spares to {need} or more"
        )


def unmeasured_need(body: dict[str, Any]) -> int:
    """What ``sparewheel spares`` says of a pool on its first day."""
    confidence = number(body, "spareConfidence")
    sure = confidence if confidence is not None and 0 < confidence < 1 else _CONFIDENCE
    return spares_needed(int(number(body, "size") or 0), failure_rate(0, 0.0), lead_time_days([], []), sure)


def breaker_can_open(resources: Sequence[Resource], given: Given) -> Iterator[Found]:
    """The breaker on fencing is set, and below the size of the fleet."""
    nodes = sum(number(spec(pool), "size") or 0 for pool in of_kind(resources, "GpuPool"))
    policies = of_kind(resources, "RemediationPolicy")
    if nodes and not policies and given.whole:
        yield None, "no RemediationPolicy is declared, so nothing limits fencing; declare the one named default"
    for policy in policies:
        limits = [number(spec(policy), "maxFencedNodes")]
        percent = number(spec(policy), "maxFencedPercent")
        if percent is not None:
            limits.append(math.ceil(nodes * percent / 100))
        known = [limit for limit in limits if limit is not None]
        if not known:
            yield policy, "no limit on fencing: set remediation.max_fenced_nodes or max_fenced_percent"
        elif nodes > 1 and min(known) >= nodes:
            yield (
                policy,
                (
                    f"the breaker opens after {min(known):g} fenced nodes of {nodes:g}, so it never does; "
                    "set remediation.max_fenced_nodes or max_fenced_percent lower"
                ),
            )


def budgets_limit_replacing(resources: Sequence[Resource], _given: Given) -> Iterator[Found]:
    """Replacing is limited: in a pool below its size, and over all pools where there are several."""
    pools = [pool for pool in of_kind(resources, "GpuPool") if (number(spec(pool), "size") or 0) > 0]
    for pool in pools:
        size = number(spec(pool), "size") or 0
        at_once = number(spec(pool), "maxConcurrentReplacements")
        if at_once is not None and size > 1 and at_once >= size:
            yield (
                pool,
                (
                    f"pool {pool.name}: all of its {size:g} nodes may be replaced at once; "
                    "set max_concurrent_replacements lower than size"
                ),
            )
    for policy in of_kind(resources, "RemediationPolicy") if len(pools) > 1 else []:
        limits = ("atOnce", "atOncePercent", "perWindow", "perWindowPercent")
        if not any(number(spec(policy), "budget", limit) for limit in limits):
            yield (
                policy,
                (
                    f"nothing limits replacing over all {len(pools)} pools; set remediation.budget, "
                    "such as {at_once: 2, per_window: 6}"
                ),
            )


def drill_passed_lately(resources: Sequence[Resource], given: Given) -> Iterator[Found]:
    """A drill was healed in every pool in the last 30 days."""
    for pool in of_kind(resources, "GpuPool"):
        body = spec(pool)
        if not number(body, "size") or at_least_one_drill(resources, pool.name, given.now):
            continue
        yield (
            pool,
            (
                f"pool {pool.name}: no drill was healed in the last {DRILL_EVERY.days} days; "
                "run 'sparewheel drill' on one of its nodes, or set remediation.drill"
            ),
        )


def at_least_one_drill(resources: Sequence[Resource], pool: str, now: datetime) -> bool:
    for record in filter(is_record, resources):
        if text(spec(record), "pool") != pool or at(spec(record), "fault", "drill") is not True:
            continue
        seen = _time(text(spec(record), "fault", "firstSeen"))
        healed = text(fields(record.inputs, "status"), "outcome") == "Healed"
        if healed and seen is not None and timedelta(0) <= now - seen <= DRILL_EVERY:
            return True
    return False


def _time(value: str) -> datetime | None:
    try:
        found = datetime.fromisoformat(value)
    except ValueError:
        return None
    return found if found.tzinfo else None


def pools_are_protected(resource: Resource, _given: Given) -> Iterator[str]:
    """A production pool can't be destroyed by one command."""
    if resource.kind in _HOLDS_MACHINES and not resource.protect:
        yield f"{resource.label}: a destroy would release its machines; set protect: true in the pool's settings"


RULES: Final = (
    Rule("pool-has-a-spare", Level.MANDATORY, "the product's promise: a bad node is replaced", check=pool_has_a_spare),
    Rule(
        "spares-meet-the-need",
        Level.MANDATORY,
        "M/G/infinity queue with the rate of arXiv 2410.21680, as `sparewheel spares`",
        check=spares_meet_the_need,
    ),
    Rule("breaker-can-open", Level.MANDATORY, "fencing ends jobs: docs/architecture.md", whole=breaker_can_open),
    Rule(
        "budgets-limit-replacing",
        Level.MANDATORY,
        "a wrong fault rule must not eat every spare: docs/architecture.md",
        whole=budgets_limit_replacing,
    ),
    Rule(
        "drill-passed-lately",
        Level.MANDATORY,
        "what isn't tried doesn't work: `sparewheel drill`",
        whole=drill_passed_lately,
        production_only=True,
        needs_records=True,
    ),
    Rule(
        "pools-are-protected",
        Level.MANDATORY,
        "Pulumi's resource option `protect`",
        check=pools_are_protected,
        production_only=True,
    ),
)
