"""The last days in figures: what counts, and what a person is told to look after."""

from __future__ import annotations

import json

import pytest

from sparewheel.api.remediation_policy import RemediationPolicy, RemediationPolicyStatus
from sparewheel.cli.week import Cluster, week_of
from tests.support.week_world import NOW, cluster


def test_drills_and_what_is_older_are_no_incidents_of_the_week() -> None:
    week = week_of(cluster(), 7)
    assert (week.incidents, week.drills, week.healed, week.open, week.failed) == (3, 1, 2, 1, 0)
    assert week.records[0].metadata.name.startswith("gpu-rack"), "newest first"
    assert (week.jobs, week.jobs_resumed, week.jobs_lost) == (3, 2, 1)
    assert (week.resumed.median, week.resumed.worst, week.resumed.count) == (9.0, 9.0, 2)
    assert (week.fenced.count, week.fenced.median) == (3, pytest.approx(1.1))
    assert (week.closed.count, week.closed.median) == (2, pytest.approx(16.0))


def test_what_is_open_is_shown_however_old_it_is() -> None:
    week = week_of(cluster(), 0.01)
    assert (week.incidents, week.open) == (1, 1)


def test_spares_budgets_and_the_breaker_as_they_are_now() -> None:
    week = week_of(cluster(), 7)
    (gpu,) = week.pools
    assert (gpu.active, gpu.size, gpu.need.have, gpu.incidents) == (7, 8, 0, 3)
    assert (gpu.use.holders, gpu.use.slots) == (("gpu-rack-12-node-107-with-a-long-name-xid-79-4",), 1)
    assert gpu.use.claims == 1, "claims of the last hour"
    assert (week.breaker_open, week.fences, week.fence_limit) == (False, 1, 4)


def test_what_needs_a_person_is_named_with_its_object() -> None:
    seen = cluster()
    told = "\n".join(week_of(seen, 7).attention)
    for words in (
        "xid-79-4 waits for a spare",
        "Job 843 of ada does not come back by itself: it was submitted with --no-requeue",
        "1 message(s) about gpu-rack-12-node-107-with-a-long-name-xid-79-4 were not delivered: 403",
        "Pool gpu has 0 and needs",
        "The last drill of pool gpu failed: no free spare",
        "Host h9 is in quarantine: XID 79",
        "The agent of node gpu-5 is silent",
    ):
        assert words in told
    breaker = RemediationPolicyStatus(breaker_open=True, message="5 nodes fenced")
    policy = RemediationPolicy(metadata=seen.policy.metadata, spec=seen.policy.spec, status=breaker)
    opened = Cluster(seen.pools, seen.hosts, seen.health, seen.records, policy, NOW)
    assert week_of(opened, 7).attention[0].startswith("The breaker is open: 5 nodes fenced")


def test_for_scripts_it_is_json() -> None:
    found = json.loads(json.dumps(week_of(cluster(), 7).as_json()))
    assert (found["incidents"], found["pools"][0]["need"]["pool"]) == (3, "gpu")
    assert found["records"][-1] == "gpu-1-xid-79-1"
