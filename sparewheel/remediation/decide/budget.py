"""The budget on replacing: at once and per window, of the pool and of the fleet. Pure.

Percent are of GPU nodes that take work, rounded up; of an absolute and a percent limit the stricter holds. So no pool
is too small to heal: one node of one to four may always be replaced.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from datetime import datetime, timedelta

from sparewheel.api.gpu_pool import GpuPoolSpec
from sparewheel.api.limits import ReplacementBudget
from sparewheel.api.remediation import Remediation
from sparewheel.remediation.decide.record import is_open

MAX_NAMES = 5
"""Holders of slots that are named: it stands in the record of each that waits, and is written anew when it changes."""


def allowed(nodes: int | None, percent: int | None, of: int) -> int | None:
    """The stricter of both limits, at least 1; None where neither is set."""
    limits = [nodes] if nodes is not None else []
    if percent is not None:
        limits.append(max(1, -(-of * percent // 100)))
    return min(limits) if limits else None


@dataclass(frozen=True, slots=True)
class FleetLimits:
    """The fleet's own budget and how many GPU nodes take work in all pools."""

    budget: ReplacementBudget = field(default_factory=ReplacementBudget)
    gpu_nodes: int = 0


def holds_slot(remediation: Remediation) -> bool:
    """An open incident that has claimed a spare takes one of its pool's replacement slots until the bad host is out.

    Not until it closes: its Slurm node's worker may wait for a host while another incident's worker is on the
    spare, and that incident would wait for the slot.
    """
    record = remediation.status.replacement
    return is_open(remediation) and record.claimed_at is not None and record.quarantined_at is None


def replacement_refused(
    name: str,
    pool: str,
    spec: GpuPoolSpec,
    incidents: Iterable[Remediation],
    now: datetime,
    fleet: FleetLimits | None = None,
) -> str:
    """Empty when incident ``name`` may claim a spare now, else what it waits for."""
    others = [other for other in incidents if other.metadata.name != name]
    mine = [other for other in others if other.spec.pool == pool]
    refused = _over(used(pool_budget(spec), spec.size, mine, now), f"pool {pool}")
    if refused or fleet is None:
        return refused
    return _over(used(fleet.budget, fleet.gpu_nodes, others, now), "the fleet")


@dataclass(frozen=True, slots=True)
class Use:
    """How much of a budget is used; a limit is None where none is set."""

    holders: tuple[str, ...]
    """Incidents that hold a replacement slot."""
    slots: int | None
    claims: int
    """Spares claimed within the window."""
    per_window: int | None
    window_seconds: int


def pool_budget(spec: GpuPoolSpec) -> ReplacementBudget:
    """The pool's own, with its ``max_concurrent_replacements`` in it."""
    at_once = spec.max_concurrent_replacements
    return spec.budget.model_copy(update={"at_once": min(at_once, spec.budget.at_once or at_once)})


def used(budget: ReplacementBudget, of: int, incidents: Iterable[Remediation], now: datetime) -> Use:
    """``of``: the GPU nodes that percent are of."""
    listed = list(incidents)
    since = now - timedelta(seconds=budget.window_seconds)
    claims = [claim for one in listed if (claim := one.status.replacement.claimed_at) is not None]
    return Use(
        holders=tuple(sorted(one.metadata.name for one in listed if holds_slot(one))),
        slots=allowed(budget.at_once, budget.at_once_percent, of),
        claims=sum(claim > since for claim in claims),
        per_window=allowed(budget.per_window, budget.per_window_percent, of),
        window_seconds=budget.window_seconds,
    )


def _over(use: Use, whose: str) -> str:
    count = len(use.holders)
    if use.slots is not None and count >= use.slots:
        names = ", ".join(use.holders[:MAX_NAMES]) + (" ..." if count > MAX_NAMES else "")
        return f"a replacement slot of {whose} ({count} of {use.slots} in use: {names})"
    if use.per_window is not None and use.claims >= use.per_window:
        return f"the budget of {whose} ({use.claims} of {use.per_window} replacements within {use.window_seconds} s)"
    return ""
