"""The budget on replacing, the veto, and the gate before a worker pod goes."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sparewheel.api.limits import ReplacementBudget
from sparewheel.api.remediation import FenceKind, JobRecord, NodeStage, Outcome, Remediation
from sparewheel.remediation.decide.budget import FleetLimits, allowed, holds_slot, replacement_refused
from sparewheel.remediation.decide.drain import deadline_over, evictable, jobs_gate, stuck
from sparewheel.remediation.decide.observations import HealthView, PodView, SlurmNodeView
from sparewheel.remediation.decide.sentences import clock
from tests.support.incidents import at, claimed, fenced, node, pool, remediation, stage, worker


def on_node(name: str, node_name: str) -> Remediation:
    record = fenced(name)
    record.spec.node = node_name
    return record


# -------------------------------------------------------------------- budget
def test_one_replacement_at_a_time_by_default() -> None:
    first, second = claimed(on_node("a", "n1")), on_node("b", "n2")
    assert replacement_refused("a", "gpu", pool().spec, [first, second], at(9)) == ""
    assert "1 of 1 in use: a" in replacement_refused("b", "gpu", pool().spec, [first, second], at(9))


def test_of_two_hundred_holders_a_few_are_named() -> None:
    """Every incident that waits has it in its record."""
    spec = pool().spec.model_copy(update={"max_concurrent_replacements": 200})
    holders = [claimed(on_node(f"i{index:03}", f"n{index}")) for index in range(200)]
    words = replacement_refused("new", "gpu", spec, holders, at(9))
    assert words == "a replacement slot of pool gpu (200 of 200 in use: i000, i001, i002, i003, i004 ...)"


def test_one_whose_bad_host_is_out_takes_no_slot_while_it_waits_for_its_slurm_node() -> None:
    other = claimed(fenced("other"))
    assert holds_slot(other)
    other.status.replacement.admitted_at = at(8)
    assert holds_slot(other)
    other.status.replacement.quarantined_at = at(9)
    assert not holds_slot(other)


def test_a_closed_or_a_foreign_incident_takes_no_slot() -> None:
    healed, elsewhere = claimed(on_node("a", "n1")), claimed(on_node("b", "n2"))
    healed.status.outcome = Outcome.HEALED
    elsewhere.spec.pool = "other"
    assert replacement_refused("c", "gpu", pool().spec, [healed, elsewhere], at(9)) == ""


@given(
    limit=st.integers(min_value=1, max_value=4),
    order=st.permutations(list(range(6))),
)
def test_claiming_one_after_the_other_never_exceeds_the_budget(limit: int, order: list[int]) -> None:
    spec = pool(max_concurrent_replacements=limit).spec
    records = [on_node(f"i{index}", f"n{index}") for index in range(6)]
    for index in order:
        if not replacement_refused(records[index].metadata.name, "gpu", spec, records, at(9)):
            claimed(records[index])
    assert sum(record.status.replacement.claimed_at is not None for record in records) == limit


@pytest.mark.parametrize(
    ("percent", "of", "nodes"),
    [(20, 1, 1), (20, 3, 1), (20, 4, 1), (20, 5, 1), (20, 6, 2), (20, 288, 58), (1, 288, 3), (50, 3, 2), (100, 4, 4)],
)
def test_percent_rounds_up_and_never_to_none(percent: int, of: int, nodes: int) -> None:
    """karpenter 2134, NVSentinel 1228: percent too coarse, small pools blocked."""
    assert allowed(None, percent, of) == nodes


@given(
    nodes=st.none() | st.integers(1, 50),
    percent=st.none() | st.integers(1, 100),
    of=st.integers(0, 10_000),
)
def test_the_stricter_limit_holds(nodes: int | None, percent: int | None, of: int) -> None:
    found = allowed(nodes, percent, of)
    if nodes is None and percent is None:
        assert found is None
        return
    assert found is not None
    assert found >= 1
    assert nodes is None or found <= nodes
    assert percent is None or found <= max(1, of * percent / 100 + 1)


@pytest.mark.parametrize(("size", "at_once"), [(1, 1), (3, 2), (4, 2), (288, 116)])
def test_percent_are_of_the_pools_gpu_nodes(size: int, at_once: int) -> None:
    """NVSentinel 1686: the wrong denominator. A pool's size counts no CPU node and no spare."""
    spec = pool(size=size, spares=9, max_concurrent_replacements=999, budget=ReplacementBudget(at_once_percent=40)).spec
    holders = [claimed(on_node(f"i{index}", f"n{index}")) for index in range(at_once)]
    assert replacement_refused("new", "gpu", spec, holders[1:], at(9)) == ""
    assert f"{at_once} of {at_once}" in replacement_refused("new", "gpu", spec, holders, at(9))


def test_a_window_counts_replacements_that_are_over() -> None:
    spec = pool(budget=ReplacementBudget(per_window=2, window_seconds=600)).spec
    over = [claimed(on_node(name, name)) for name in "ab"]
    for record in over:
        record.status.outcome = Outcome.HEALED
    assert "2 of 2 replacements within 600 s" in replacement_refused("c", "gpu", spec, over, at(300))
    assert replacement_refused("c", "gpu", spec, over, at(700)) == ""


def test_the_fleets_budget_counts_all_pools() -> None:
    elsewhere = claimed(on_node("a", "n1"))
    elsewhere.spec.pool = "other"
    fleet = FleetLimits(ReplacementBudget(at_once_percent=1), gpu_nodes=64)
    assert "of the fleet" in replacement_refused("b", "gpu", pool().spec, [elsewhere], at(9), fleet)
    assert replacement_refused("a", "other", pool().spec, [elsewhere], at(9), fleet) == "", "its own claim is no other"


# -------------------------------------------------------------------- the gate before the worker pod goes
def health(*, since_fence: bool = True, ago: float = 1.0, alive: frozenset[int] | None = frozenset()) -> HealthView:
    return HealthView(heard_seconds_ago=ago, heard_since_fence=since_fence, jobs_alive=alive)


def test_the_agents_word_opens_the_gate() -> None:
    assert jobs_gate(fenced(), health(), None, at(2)).open


def test_the_agents_word_is_taken_only_fresh_after_the_fence_and_when_it_could_look() -> None:
    for said in (
        health(since_fence=False),
        health(ago=60.0),
        health(alive=None),
        health(alive=frozenset({7})),
        None,
    ):
        assert not jobs_gate(fenced(), said, None, at(2)).open


def test_the_grace_is_given_whole_and_then_over() -> None:
    assert not jobs_gate(fenced(struck=1.0), None, None, at(60.9)).open


def test_the_wait_for_the_grace_says_for_whom_and_until_when() -> None:
    until = f"grace ends {clock(at(61))}"
    assert jobs_gate(fenced(struck=1.0), None, None, at(2)).why == f"the jobs to save; {until}"
    one = jobs_gate(fenced(struck=1.0), health(alive=frozenset({12})), None, at(2))
    assert one.why == f"job 12 to end: processes still run on gpu-7; {until}"
    many = jobs_gate(fenced(struck=1.0), health(alive=frozenset({4, 3, 2, 1})), None, at(2))
    assert many.why.startswith("jobs 1, 2, 3 and others to end")
    stale = health(alive=frozenset({12}), ago=60.0)
    assert jobs_gate(fenced(struck=1.0), stale, None, at(2)).why == f"the jobs to save; {until}"
    assert jobs_gate(fenced(struck=1.0), None, None, at(61.0)).open


def test_nobody_there_or_host_off_needs_no_grace() -> None:
    assert jobs_gate(fenced(jobs=[]), None, None, at(2)).open
    off = fenced()
    off.status.replacement.proven_off_at = at(2)
    assert jobs_gate(off, None, None, at(2)).open


def test_before_the_strike_the_gate_is_shut() -> None:
    assert not jobs_gate(remediation(), health(), None, at(500)).open


def test_a_drained_node_with_a_running_job_is_not_empty() -> None:
    """soperator 2635, NVSentinel 919: DRAIN with ALLOCATED is not ready to delete, however long it lasts."""
    record = fenced()
    record.status.fence = FenceKind.DRAIN
    busy = SlurmNodeView("gpu-0", frozenset({"DRAIN", "ALLOCATED"}))
    assert not jobs_gate(record, None, busy, at(100_000)).open
    record.status.jobs = [JobRecord(job_id=7, closed=True)]
    assert jobs_gate(record, None, SlurmNodeView("gpu-0", frozenset({"DRAIN", "IDLE"})), at(10)).open
    assert not jobs_gate(record, None, None, at(100_000)).open, "Slurm not answering is not empty"


def test_a_drained_nodes_gate_stays_open_once_its_worker_goes() -> None:
    """Its Slurm node may be another's by then: a warm spare took over, or it serves elsewhere with other jobs."""
    record = fenced(jobs=[])
    record.status.fence = FenceKind.DRAIN
    busy = SlurmNodeView("gpu-0", frozenset({"ALLOCATED"}))
    record.status.replacement.slurm_restored_at, record.status.replacement.spare_slurm_node = at(3), "gpu-5"
    assert not jobs_gate(record, None, busy, at(10)).open, "a spare took over, and a job runs on where it was"
    record.status.replacement.worker_deleted_at = at(5)
    assert jobs_gate(record, None, busy, at(10)).open
    assert jobs_gate(record, None, None, at(10)).open


def test_a_drained_node_whose_worker_serves_elsewhere_holds_no_job() -> None:
    record = fenced(jobs=[JobRecord(job_id=7)])
    record.status.fence, record.status.replacement.slurm_restored_at = FenceKind.DRAIN, at(3)
    busy = SlurmNodeView("gpu-0", frozenset({"ALLOCATED"}))
    assert not jobs_gate(record, None, busy, at(10)).open
    record.status.jobs = [JobRecord(job_id=7, requeued_at=at(4))]
    assert jobs_gate(record, None, busy, at(10)).open


# -------------------------------------------------------------------- other pods
def test_what_a_drain_leaves_alone() -> None:
    pods = [
        worker(),
        PodView("ds", "kube-system", "1", daemon=True),
        PodView("static", "kube-system", "2", mirror=True),
        PodView("done", "team", "3", finished=True),
        PodView("eval", "team", "4", veto=True),
        PodView("agent", "sparewheel", "5", app_name="sparewheel-agent"),
        PodView("web", "team", "6"),
    ]
    assert [pod.name for pod in evictable(pods, "sparewheel-agent")] == ["web"]


def test_budgets_are_honoured_until_the_deadline() -> None:
    record = fenced()
    assert not deadline_over(record, 300, at(10_000)), "the drain has not begun"
    record.status.stages.append(stage(NodeStage.DRAINED, 2))
    assert not deadline_over(record, 300, at(301))
    assert deadline_over(record, 300, at(302))


def test_a_pod_is_stuck_when_its_kubelet_is_dead_and_its_time_over() -> None:
    """CAPI 2998: a drain that waits for a dead kubelet."""
    ending = worker(deletion_due=at(10))
    assert not stuck(ending, node(ready=None), at(9))
    assert stuck(ending, node(ready=None), at(11))
    assert not stuck(ending, node(ready=True), at(11))
    assert stuck(ending, node(ready=True), at(71))
    assert not stuck(worker(), node(ready=None), at(10_000)), "nobody asked for its deletion"
