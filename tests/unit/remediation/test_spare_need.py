"""The need of spares against a published table, its properties, and what is measured from records and hosts."""

from __future__ import annotations

import math
from datetime import timedelta

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sparewheel.api.base import ObjectMeta
from sparewheel.api.gpu_host import GpuHost, GpuHostSpec, GpuHostStatus, HostPhase, Repair
from sparewheel.api.remediation import Outcome, Remediation, ReplacementRecord, Trigger
from sparewheel.remediation.decide.spare_need import (
    PRIOR_LEAD_DAYS,
    PRIOR_RATE,
    failure_rate,
    lead_time_days,
    need_of_pool,
    poisson_quantile,
    spares_needed,
)
from tests.support.incidents import T0, fault, pool, remediation

HOURS_6 = 0.25


@pytest.mark.parametrize(
    ("nodes", "needs"),
    [
        (16, (0, 1, 2, 3)),
        (64, (1, 2, 3, 6)),
        (128, (1, 3, 5, 9)),
        (512, (1, 5, 10, 21)),
        (2048, (2, 10, 26, 61)),
    ],
)
def test_the_published_table(nodes: int, needs: tuple[int, ...]) -> None:
    """At 99.9 % and 6.5 failures per 1,000 node-days: away for 5 minutes, 6 hours, a day, three days."""
    leads = (5 / 1440, HOURS_6, 1.0, 3.0)
    assert tuple(spares_needed(nodes, PRIOR_RATE, lead, 0.999) for lead in leads) == needs


@settings(deadline=None)
@given(st.floats(0, 300), st.floats(0.01, 0.999999))
def test_the_quantile_is_the_smallest_that_is_enough(mean: float, confidence: float) -> None:
    found = poisson_quantile(mean, confidence)

    def at_most(count: int) -> float:
        terms = [math.exp(k * math.log(mean) - mean - math.lgamma(k + 1)) if mean else k == 0 for k in range(count + 1)]
        return math.fsum(terms)

    assert at_most(found) >= confidence - 1e-9
    assert found == 0 or at_most(found - 1) < confidence + 1e-9


@settings(deadline=None)
@given(st.integers(0, 500), st.floats(0, 0.05), st.floats(0, 10), st.floats(0.5, 0.9999))
def test_more_of_anything_never_needs_less(nodes: int, rate: float, lead: float, confidence: float) -> None:
    base = spares_needed(nodes, rate, lead, confidence)
    assert spares_needed(nodes + 10, rate, lead, confidence) >= base
    assert spares_needed(nodes, rate * 2, lead, confidence) >= base
    assert spares_needed(nodes, rate, lead * 2, confidence) >= base
    assert spares_needed(nodes, rate, lead, (1 + confidence) / 2) >= base


def test_the_prior_gives_way_to_what_is_measured() -> None:
    assert failure_rate(0, 0) == pytest.approx(PRIOR_RATE)
    assert failure_rate(2000, 100_000) == pytest.approx(0.02, rel=0.01)
    assert failure_rate(0, 100_000) < PRIOR_RATE / 10
    assert lead_time_days([], []) == PRIOR_LEAD_DAYS
    assert lead_time_days([0.5] * 200, []) == pytest.approx(0.5, rel=0.05)
    assert lead_time_days([], [10.0]) == 13.0, "a repair that goes on for ever is no repair of ten days"


def lost(name: str, days_ago: float = 1.0, **fields: object) -> Remediation:
    seen = T0 - timedelta(days=days_ago)
    fields.setdefault("fault", fault(first_seen=seen, last_seen=seen))
    fields.setdefault("outcome", Outcome.HEALED)
    return remediation(name, replacement=ReplacementRecord(bad_host=name, quarantined_at=T0), **fields)


def host(name: str, phase: HostPhase = HostPhase.SPARE, **status: object) -> GpuHost:
    return GpuHost(
        metadata=ObjectMeta(name=name),
        spec=GpuHostSpec(pool="gpu", host=name, provider_id=f"machines://{name}"),
        status=GpuHostStatus.model_validate({"phase": phase, **status}),
    )


def test_measured_from_records_and_hosts() -> None:
    gpu = pool(size=100, spares=3)
    gpu.metadata.creation_timestamp = T0 - timedelta(days=30)
    drill = fault(drill=True, first_seen=T0, last_seen=T0)
    records = [
        lost("a"),
        lost("b", days_ago=29),
        lost("too-old", days_ago=91),
        lost("a-drill", fault=drill),
        lost("by-hand", trigger=Trigger.MANUAL),
        lost("called-off", outcome=Outcome.CANCELLED, cancelled_by="ada"),
        lost("elsewhere", pool="other"),
    ]
    records[0].status.replacement.refused_hosts = ["bad-spare"]
    repair = Repair(quarantined_at=T0 - timedelta(days=4), released_at=T0 - timedelta(days=3))
    hosts = [
        host("s1"),
        host("s2", repairs=[repair]),
        host("lemon", lemon=True),
        host("out", HostPhase.QUARANTINED, since=T0 - timedelta(days=2)),
    ]
    need = need_of_pool(gpu, hosts, records, T0)
    assert (need.have, need.configured, need.failures, need.node_days) == (2, 3, 3, 3000.0)
    assert need.rate_per_node_day == pytest.approx(5 / (2 / 0.0065 + 3000))
    assert (need.repairs, need.lead_days) == (1, 3.0)
    assert need.needed == spares_needed(100, need.rate_per_node_day, 3.0, 0.999)
    assert need.short
    assert need.words.startswith(f"pool gpu has 2 and needs {need.needed} spares (1.5 failures per 1,000 node-days")


def test_a_host_that_a_drill_took_was_never_away_for_a_repair() -> None:
    """Else a platform that drills every night, and releases by hand a day later, would ask for spares by it."""
    gpu, days = pool(size=16, spares=3), timedelta(days=1)
    drill = lost("drilled", fault=fault(drill=True, first_seen=T0 - 5 * days, last_seen=T0 - 5 * days))
    drill.status.replacement.quarantined_at = T0 - 5 * days
    still = lost("still", fault=fault(drill=True, first_seen=T0 - 2 * days, last_seen=T0 - 2 * days))
    still.status.replacement.quarantined_at = T0 - 2 * days
    second = timedelta(seconds=1)
    by_drill = Repair(quarantined_at=T0 - 5 * days + second, released_at=T0 - 4 * days)
    by_fault = Repair(quarantined_at=T0 - 20 * days, released_at=T0 - 15 * days)
    hosts = [
        host("drilled", repairs=[by_fault, by_drill]),
        host("still", HostPhase.QUARANTINED, since=T0 - 2 * days, quarantined_at=T0 - 2 * days),
    ]
    need = need_of_pool(gpu, hosts, [drill, still], T0)
    assert (need.failures, need.repairs) == (0, 1)
    assert need.lead_days == lead_time_days([5.0], [])


def test_a_pool_of_which_nothing_is_known_yet_is_sized_by_the_prior() -> None:
    gpu = pool(size=16, spares=1)
    assert need_of_pool(gpu, [], [], T0).needed == spares_needed(16, PRIOR_RATE, PRIOR_LEAD_DAYS, 0.999) == 3
