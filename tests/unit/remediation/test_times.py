"""Clocks of replicas differ: a record's time is believed within a bound, and no wait grows with each new leader."""

from __future__ import annotations

from datetime import timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sparewheel.api.remediation import NodeStage
from sparewheel.remediation.decide.drain import jobs_gate
from sparewheel.remediation.decide.times import CLOCKS_APART, latest, seconds_since
from tests.support.incidents import at, fenced, remediation, stage

APART = CLOCKS_APART.total_seconds()
GRACE = fenced().spec.grace_seconds
seconds = st.floats(min_value=0, max_value=10_000)
skews = st.floats(min_value=-APART, max_value=APART)


@pytest.mark.parametrize(("ahead", "believed"), [(-50.0, 0.0), (20.0, 20.0), (APART, APART), (3600.0, APART)])
def test_a_clock_far_ahead_is_believed_only_so_far(ahead: float, believed: float) -> None:
    record = remediation(stages=[stage(NodeStage.DETECTED, ahead, ahead)])
    assert latest(record.status, at(0)) == at(believed)


@given(st.lists(seconds, min_size=2, max_size=5), seconds)
def test_time_stands_still_no_longer_than_the_bound_and_never_goes_back(looks: list[float], written: float) -> None:
    record = remediation(stages=[stage(NodeStage.DETECTED, written, written)])
    told = [latest(record.status, at(look)) for look in sorted(looks)]
    assert told == sorted(told)
    for look, time in zip(sorted(looks), told, strict=True):
        assert at(look) <= time <= at(look) + CLOCKS_APART


# -------------------------------------------------------------------- the grace
@given(seconds, skews, seconds)
def test_the_grace_is_never_cut_whatever_the_striker_s_clock_said(since: float, skew: float, seen: float) -> None:
    """``skew``: of the clock that dated the strike, against ours."""
    record = fenced(struck=skew)
    gate = jobs_gate(record, None, None, at(since), min(seen, since))
    assert not gate.open or since >= GRACE


@given(skews, st.lists(st.floats(min_value=0, max_value=50), min_size=1, max_size=40))
def test_however_often_the_leader_changes_the_grace_ends(skew: float, reigns: list[float]) -> None:
    record, now = fenced(struck=skew), 0.0
    for reign in reigns:
        now += reign
        if now >= GRACE + APART + skew:
            assert jobs_gate(record, None, None, at(now), reign).open
            return


def test_a_successor_goes_on_with_the_grace() -> None:
    long_ago = fenced(struck=0.0)
    assert jobs_gate(long_ago, None, None, at(GRACE + APART + 1), 0.0).open
    assert not jobs_gate(long_ago, None, None, at(GRACE + 1), 0.0).open, "two clocks may be so far apart"
    assert jobs_gate(long_ago, None, None, at(GRACE + 1), GRACE + 1).open, "seen by one and the same clock"


def test_a_time_in_our_future_counts_from_when_it_was_seen() -> None:
    assert seconds_since(at(5000), at(0), 7.0) == 7.0
    assert seconds_since(at(0), at(9), None) == 9.0
    assert seconds_since(at(0), at(0) + CLOCKS_APART + timedelta(seconds=9), 2.0) == 9.0
