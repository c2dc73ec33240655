"""The budget on replacing: at once and per window, of the pool and of the fleet. Pure.

Percent are of GPU nodes that take work, rounded up; of an absolute and a percent limit the stricter holds. So no pool
is too small to heal: one node of one to four may always be replaced.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
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
    at_once = spec.max_concurrent_replacements
    budget = spec.budget.model_copy(update={"at_once": min(at_once, spec.budget.at_once or at_once)})
    refused = _over(budget, spec.size, mine, now, f"pool {pool}")
    if refused or fleet is None:
        return refused
    return _over(fleet.budget, fleet.gpu_nodes, others, now, "the fleet")


def _over(budget: ReplacementBudget, of: int, others: Sequence[Remediation], now: datetime, whose: str) -> str:
    holders = sorted(other.metadata.name for other in others if holds_slot(other))
    limit = allowed(budget.at_once, budget.at_once_percent, of)
    if limit is not None and len(holders) >= limit:
        names = ", ".join(holders[:MAX_NAMES]) + (" ..." if len(holders) > MAX_NAMES else "")
        return f"a replacement slot of {whose} ({len(holders)} of {limit} in use: {names})"
    limit = allowed(budget.per_window, budget.per_window_percent, of)
    since = now - timedelta(seconds=budget.window_seconds)
    claims = [claim for other in others if (claim := other.status.replacement.claimed_at) is not None]
    recent = sum(claim > since for claim in claims)
    if limit is not None and recent >= limit:
        return f"the budget of {whose} ({recent} of {limit} replacements within {budget.window_seconds} s)"
    return ""
