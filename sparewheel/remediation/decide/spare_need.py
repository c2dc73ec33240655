"""How many spares a pool needs, from its measured failure rate, how long a host is away, and the confidence asked for.

Failures come as a Poisson process and each takes a host away for the lead time (quarantine to back among the spares).
Then the number of hosts away at one moment is Poisson with mean ``nodes x rate x mean lead time``, whatever the lead
time's distribution (Palm's theorem, the M/G/infinity queue). The need is the smallest s with ``P[away <= s] >=
confidence``. Drills are neither failures nor repairs.

Rate and lead time are means of Gamma posteriors: what was measured, and a prior that counts as a few observations. The
prior rate is Meta's research clusters' 6.5 failures per 1,000 node-days of 8-GPU nodes (arXiv 2410.21680); the prior
lead time is a hardware repair of three days. A repair still under way counts with its time so far.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final

from sparewheel.api.gpu_host import GpuHost, HostPhase
from sparewheel.api.gpu_pool import GpuPool
from sparewheel.api.remediation import Remediation
from sparewheel.remediation.decide.history import drilled, hosts_lost, recent
from sparewheel.remediation.decide.leftovers import kept_from_work

MEASURED: Final = timedelta(days=90)
PRIOR_RATE: Final = 0.0065
"""Failures per node-day."""
PRIOR_FAILURES: Final = 2.0
"""The prior rate weighs as much as this many failures seen."""
PRIOR_LEAD_DAYS: Final = 3.0
PRIOR_REPAIRS: Final = 1.0
"""The prior lead time weighs as much as this many repairs seen."""
_DAY: Final = 86400.0


@dataclass(frozen=True, slots=True)
class Need:
    """One pool. Times in days, rate in failures per node-day."""

    pool: str
    have: int
    """Free spares now."""
    configured: int
    needed: int
    failures: int
    node_days: float
    rate_per_node_day: float
    repairs: int
    lead_days: float
    confidence: float

    @property
    def short(self) -> bool:
        return self.have < self.needed

    @property
    def words(self) -> str:
        """One sentence for people."""
        rate = f"{self.rate_per_node_day * 1000:.1f} failures per 1,000 node-days"
        away = f"{self.lead_days:.1f} days away each"
        verb = f"needs {self.needed} spares" if self.needed != 1 else "needs 1 spare"
        return f"pool {self.pool} has {self.have} and {verb} ({rate}, {away}, {self.confidence:.4g} sure)"


def poisson_quantile(mean: float, confidence: float) -> int:
    """Smallest s with ``P[Poisson(mean) <= s] >= confidence``."""
    if mean <= 0:
        return 0
    total, count = 0.0, 0
    while True:
        total += math.exp(count * math.log(mean) - mean - math.lgamma(count + 1))
        # Rounding must not keep the sum below the bound for ever: far beyond the mean nothing more is added.
        if total >= confidence or count > mean + 40 * math.sqrt(mean) + 40:
            return count
        count += 1


def spares_needed(nodes: int, rate_per_node_day: float, lead_days: float, confidence: float) -> int:
    return poisson_quantile(nodes * rate_per_node_day * lead_days, confidence)


def failure_rate(failures: int, node_days: float) -> float:
    """Per node-day: what was measured, pulled towards the prior while little was."""
    return (PRIOR_FAILURES + failures) / (PRIOR_FAILURES / PRIOR_RATE + node_days)


def lead_time_days(ended_days: Sequence[float], going_on_days: Sequence[float]) -> float:
    """Mean time away; a repair under way adds its time so far and no end (censored, exponential)."""
    total = PRIOR_REPAIRS * PRIOR_LEAD_DAYS + sum(ended_days) + sum(going_on_days)
    return total / (PRIOR_REPAIRS + len(ended_days))


def need_of_pool(pool: GpuPool, hosts: Iterable[GpuHost], records: Iterable[Remediation], now: datetime) -> Need:
    """``hosts`` and ``records`` may be of all pools."""
    name, mine = pool.metadata.name, [host for host in hosts if host.spec.pool == pool.metadata.name]
    here = [record for record in records if record.spec.pool == name]
    failures = sum(hosts_lost(record) for record in recent(here, now, MEASURED))
    created = pool.metadata.creation_timestamp or now
    node_days = pool.spec.size * _days(min(MEASURED, max(timedelta(0), now - created)))
    ended = [
        _days(repair.released_at - repair.quarantined_at)
        for host in mine
        for repair in host.status.repairs
        if now - repair.released_at <= MEASURED and not drilled(host.spec.host, repair.quarantined_at, here)
    ]
    going_on = [
        _days(now - host.status.since)
        for host in mine
        if host.status.phase is HostPhase.QUARANTINED
        and host.status.since is not None
        and not drilled(host.spec.host, host.status.quarantined_at or host.status.since, here)
    ]
    rate, lead = failure_rate(failures, node_days), lead_time_days(ended, going_on)
    return Need(
        pool=name,
        have=sum(free_spare(host) for host in mine),
        configured=pool.spec.spares,
        needed=spares_needed(pool.spec.size, rate, lead, pool.spec.spare_confidence),
        failures=failures,
        node_days=node_days,
        rate_per_node_day=rate,
        repairs=len(ended),
        lead_days=lead,
        confidence=pool.spec.spare_confidence,
    )


def free_spare(host: GpuHost) -> bool:
    free = host.status.phase is HostPhase.SPARE and host.status.claim is None
    return free and not host.status.lemon and not kept_from_work(host)


def _days(time: timedelta) -> float:
    return time.total_seconds() / _DAY
