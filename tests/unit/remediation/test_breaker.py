"""The breaker on fencing: when it opens, what counts after a person closed it, what becomes of the backlog."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sparewheel.api.remediation import FenceKind, NodeStage, Remediation
from sparewheel.api.remediation_policy import Backlog, RemediationPolicySpec, RemediationPolicyStatus
from sparewheel.cli.commands.breaker import words
from sparewheel.remediation.decide.breaker import (
    closed,
    common_cause,
    fence_limit,
    fenced_since,
    one_too_many,
    opened,
    struck_after_all,
)
from sparewheel.remediation.decide.fence_record import fence_again
from sparewheel.remediation.decide.next_step import NodeAction, Situation, next_step
from sparewheel.remediation.decide.observations import Observations
from sparewheel.remediation.decide.record import end, ended
from tests.support.incidents import at, fault, fenced, node, pool, remediation

CLOSED = RemediationPolicyStatus()
TWO = RemediationPolicySpec(max_fenced_nodes=2, fenced_window_seconds=300)


def on_node(name: str, fence: FenceKind = FenceKind.DOWN, decided: float = 1.0) -> Remediation:
    record = fenced(name)
    record.spec.node = f"node-{name}"
    record.status.fence, record.status.fence_decided_at = fence, at(decided)
    return record


def test_it_opens_when_one_more_fence_would_be_too_many_and_not_for_the_same_incident_again() -> None:
    records = [on_node("a"), on_node("b")]
    assert one_too_many("b", TWO, CLOSED, 8, records, at(10)) == ""
    assert "2 nodes fenced within 300 s, 2 allowed" in one_too_many("c", TWO, CLOSED, 8, records, at(10))
    assert one_too_many("c", TWO, CLOSED, 8, records, at(400)) == "", "the window moves on while it is closed"


def test_only_fences_that_end_jobs_count() -> None:
    dry = on_node("dry")
    dry.spec.dry_run = True
    light = [on_node(kind, kind) for kind in (FenceKind.DRAIN, FenceKind.CORDON, FenceKind.JOBS, FenceKind.NONE)]
    assert fenced_since([dry, *light], at(0)) == set()


@pytest.mark.parametrize(("gpu_nodes", "limit"), [(1, 1), (2, 1), (3, 2), (4, 2), (16, 8), (288, 10)])
def test_the_stricter_of_nodes_and_percent(gpu_nodes: int, limit: int) -> None:
    assert fence_limit(RemediationPolicySpec(max_fenced_nodes=10, max_fenced_percent=50), gpu_nodes) == limit


@given(fences=st.integers(0, 6), before=st.integers(0, 6), limit=st.integers(1, 5))
def test_after_a_person_closed_it_only_new_fences_count(fences: int, before: int, limit: int) -> None:
    policy = RemediationPolicySpec(max_fenced_nodes=limit, fenced_window_seconds=300)
    records = [on_node(f"old-{index}", decided=5) for index in range(before)]
    records += [on_node(f"new-{index}", decided=20) for index in range(fences)]
    status = closed(opened("x", "too many", records, at(9)), "kim", "a switch", Backlog.RESUME, at(10))
    assert bool(one_too_many("next", policy, status, 100, records, at(30))) is (fences >= limit)


def test_who_closed_it_and_why_stays_readable() -> None:
    status = opened("gpu-3-xid-79-1", "2 nodes fenced within 300 s, 2 allowed", [], at(0))
    assert "OPEN since 2026-01-01T00:00:00Z, by gpu-3-xid-79-1: 2 nodes fenced" in words(status)
    after = closed(status, "kim", "switch 4 replaced", Backlog.SKIP, at(60))
    assert "since 2026-01-01T00:01:00Z. Closed by kim: switch 4 replaced" in words(after)
    assert "left drained" in words(after)
    assert words(CLOSED) == "The breaker is closed and never was open."


# -------------------------------------------------------------------- one cause
def seen(name: str, seconds: float, code: str = "XID 149") -> Remediation:
    record = remediation(name, fault=fault(code, first_seen=at(-9000)))
    record.spec.node = f"node-{name}"
    record.status = end(NodeStage.DETECTED, at(seconds))(record.status)
    return record


def test_many_nodes_with_one_code_within_a_minute_hint_at_one_cause() -> None:
    burst = [seen(str(index), index * 4.0) for index in range(4)]
    hint = common_cause([*burst, seen("late", 500), seen("other", 3, "XID 79")], at(600))
    assert hint.startswith("4 nodes show XID 149 within 12 s: look for one cause (fabric")
    assert "network" in common_cause([seen(str(index), index, "NODE_LOST") for index in range(3)], at(9))
    assert common_cause(burst[:2], at(9)) == ""
    assert common_cause([seen(str(index), index * 50.0) for index in range(3)], at(200)) == "", "over a minute"
    assert hint in opened("x", "many", burst, at(600)).message


# -------------------------------------------------------------------- the backlog
def drained(decided: float = 5) -> Remediation:
    return on_node("waiting", FenceKind.DRAIN, decided)


OPEN = opened("waiting", "many", [], at(4))


def test_the_backlog_is_struck_once_a_person_says_resume_and_only_then() -> None:
    assert not struck_after_all(drained(), OPEN)
    assert not struck_after_all(drained(), closed(OPEN, "kim", "x", Backlog.SKIP, at(10)))
    resumed = closed(OPEN, "kim", "x", Backlog.RESUME, at(10))
    assert struck_after_all(drained(), resumed)
    assert not struck_after_all(drained(decided=20), resumed), "drained by a later opening"
    ahead = drained(decided=20)
    ahead.status.drained_under = OPEN.breaker_since
    assert struck_after_all(ahead, resumed), "drained by this opening, by a clock that is ahead of the person's"
    ahead.status.drained_under = at(19)
    assert not struck_after_all(ahead, resumed)
    assert not struck_after_all(on_node("struck"), resumed)
    gone = drained()
    gone.status.replacement.worker_deleted_at = at(8)
    assert not struck_after_all(gone, resumed), "its jobs have ended by themselves"


def test_the_node_track_fences_again_and_decides_anew() -> None:
    record = drained()
    seen_now = Observations(node=node(name=record.spec.node, unschedulable=True))
    resumed = closed(OPEN, "kim", "x", Backlog.RESUME, at(10))
    step = next_step(record, seen_now, Situation(pool().spec, at(20), breaker=resumed))
    assert [todo.action for todo in step.todo] == [NodeAction.FENCE_AGAIN]
    again = fence_again(at(20))(record.status)
    assert again.fence is FenceKind.UNDECIDED
    assert not ended(again, NodeStage.FENCED)
    assert again.owned == record.status.owned, "what is ours stays ours"
    assert fence_again(at(21))(again) == again, "safe to repeat"
