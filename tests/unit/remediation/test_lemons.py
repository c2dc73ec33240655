"""Lemons: who strikes too often, and what does not count against a host."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from sparewheel.api.remediation import Outcome, Remediation, Trigger
from sparewheel.api.remediation_policy import LemonRule
from sparewheel.remediation.decide.lemons import lemon_reason
from tests.support.incidents import T0, fault, remediation

RULE = LemonRule()


def struck(name: str, days_ago: float, host: str = "gpu-7", **fields: Any) -> Remediation:
    seen = T0 - timedelta(days=days_ago)
    record = remediation(name, fault=fault(first_seen=seen, last_seen=seen), node=host, **fields)
    record.status.outcome = fields.get("outcome", Outcome.HEALED)
    return record


def test_three_in_seven_days() -> None:
    records = [struck("a", 6.9), struck("b", 3)]
    assert lemon_reason("gpu-7", records, RULE, T0) == ""
    assert lemon_reason("gpu-7", records, RULE, T0, this_one="now") == "lemon: 3 incidents in 7 days (a, b, now)"
    assert lemon_reason("gpu-7", [*records, struck("c", 0)], RULE, T0) == "lemon: 3 incidents in 7 days (a, b, c)"
    assert lemon_reason("gpu-8", [*records, struck("c", 0)], RULE, T0) == ""
    assert lemon_reason("gpu-7", [*records, struck("c", 7.1)], RULE, T0) == ""
    assert lemon_reason("gpu-7", [*records, struck("b", 3)], RULE, T0) == "", "one incident counts once"


def test_a_spare_that_failed_its_checks_struck_too() -> None:
    other = struck("c", 1, host="gpu-1")
    other.status.replacement.refused_hosts = ["gpu-7"]
    assert lemon_reason("gpu-7", [struck("a", 6), struck("b", 3), other], RULE, T0).startswith("lemon: 3")


def test_drills_wishes_dry_runs_and_what_a_person_called_off_do_not_count() -> None:
    seen = T0 - timedelta(days=1)
    none = [
        remediation("a", node="gpu-7", fault=fault(drill=True, first_seen=seen, last_seen=seen)),
        struck("b", 1, trigger=Trigger.MANUAL),
        struck("c", 1, dry_run=True),
        struck("d", 1, outcome=Outcome.CANCELLED, cancelled_by="ada"),
    ]
    assert lemon_reason("gpu-7", none, LemonRule(incidents=2), T0) == ""
    flapping = [struck("e", 1, outcome=Outcome.CANCELLED), struck("f", 1, outcome=Outcome.CANCELLED)]
    assert lemon_reason("gpu-7", flapping, LemonRule(incidents=2), T0), "a fault that came and went by itself is one"


def test_what_came_before_it_was_cleared_no_longer_counts() -> None:
    records = [struck("a", 6), struck("b", 5), struck("c", 4)]
    assert lemon_reason("gpu-7", records, RULE, T0, cleared_at=T0 - timedelta(days=4.5)) == ""
    assert lemon_reason("gpu-7", records, RULE, T0, cleared_at=T0 - timedelta(days=6.5)).startswith("lemon: 3")


@given(st.lists(st.floats(-1, 20), max_size=12), st.integers(2, 5), st.floats(0.01, 15))
def test_as_counting_says(days: list[float], incidents: int, window_days: float) -> None:
    rule = LemonRule(incidents=incidents, window_seconds=max(60, int(window_days * 86400)))
    records = [struck(f"r{index}", ago) for index, ago in enumerate(days)]
    seen = [T0 - record.spec.fault.first_seen for record in records]
    counted = sum(timedelta(0) <= ago <= timedelta(seconds=rule.window_seconds) for ago in seen)
    assert bool(lemon_reason("gpu-7", records, rule, T0)) == (counted >= incidents)
