"""A Node that somebody removed: the controller's turn comes first, and capacity's only where nobody took it."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from sparewheel.remediation.decide.missing_node import LEFT_TO_INCIDENTS_SECONDS, incident_due, left_alone
from tests.support.incidents import pool

SECONDS = st.floats(min_value=0, max_value=5000)


@given(SECONDS, SECONDS)
def test_capacity_takes_a_host_back_only_long_after_an_incident_was_due(missing: float, grace: float) -> None:
    spec = pool(node_removed_seconds=grace).spec
    if left_alone(missing, spec):
        assert incident_due(missing, spec)
        assert incident_due(missing - LEFT_TO_INCIDENTS_SECONDS + 1e-6, spec)
    assert not left_alone(grace + LEFT_TO_INCIDENTS_SECONDS, spec)
    assert incident_due(grace, spec)


def test_of_a_pool_that_is_not_known_nothing_is_made() -> None:
    assert not incident_due(1e9, None)
