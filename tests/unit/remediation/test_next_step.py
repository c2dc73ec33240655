"""The node track as a whole: what must never happen, whatever is seen; and the way an incident usually goes."""

from __future__ import annotations

from datetime import datetime
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sparewheel.api.names import ANNOTATION_REMEDIATION
from sparewheel.api.remediation import FenceKind, NodeStage, Outcome, Remediation, Trigger
from sparewheel.remediation.decide.anew import about
from sparewheel.remediation.decide.next_step import NodeAction, NodeStep, Situation, next_step
from sparewheel.remediation.decide.observations import (
    Gone,
    HealthView,
    NodeView,
    Observations,
    PodView,
    SlurmNodeView,
    Unknown,
)
from sparewheel.remediation.decide.record import end
from tests.support.incidents import at, claimed, fenced, node, pool, remediation, stage, worker

DELETING = {NodeAction.DELETE_WORKER, NodeAction.EVICT, NodeAction.DELETE_POD, NodeAction.FORCE_DELETE}
CORDONED = node(unschedulable=True)
QUIET = HealthView(heard_seconds_ago=1.0, heard_since_fence=True, jobs_alive=frozenset())


def decide(record: Remediation, seen: Observations, seconds: float = 5.0, **changes: Any) -> NodeStep:
    return next_step(record, seen, Situation(pool(**changes).spec, at(seconds)))


def actions(record: Remediation, seen: Observations, seconds: float = 5.0) -> list[NodeAction]:
    return [todo.action for todo in decide(record, seen, seconds).todo]


# -------------------------------------------------------------------- anything goes in
times = st.integers(min_value=0, max_value=2000).map(at)
pods = st.lists(
    st.builds(
        PodView,
        name=st.sampled_from(["a", "b", "c"]),
        namespace=st.sampled_from(["slurm", "team"]),
        uid=st.sampled_from(["u1", "u2", "pod-uid"]),
        node_name=st.just("gpu-7"),
        app_name=st.sampled_from(["slurmd", "web", "sparewheel-agent", ""]),
        veto=st.booleans(),
        daemon=st.booleans(),
        mirror=st.booleans(),
        finished=st.booleans(),
        deletion_due=st.none() | times,
    ),
    max_size=4,
).map(tuple)
nodes = st.one_of(
    st.just(Gone()),
    st.just(Unknown("503")),
    st.builds(
        node,
        uid=st.sampled_from(["node-uid", "another"]),
        annotations=st.sampled_from(
            [{}, {ANNOTATION_REMEDIATION: "other"}, {ANNOTATION_REMEDIATION: "gpu-7-xid-79-0"}]
        ),
        unschedulable=st.booleans(),
        ready=st.sampled_from([True, False, None]),
    ),
)
health_views = st.builds(
    HealthView,
    heard_seconds_ago=st.floats(min_value=0, max_value=100),
    heard_since_fence=st.booleans(),
    jobs_alive=st.none() | st.frozensets(st.integers(min_value=1, max_value=3), max_size=2),
)
slurm_nodes = st.one_of(
    st.just(Gone()),
    st.just(Unknown("no answer")),
    st.none(),
    st.builds(
        SlurmNodeView,
        name=st.just("gpu-0"),
        states=st.frozensets(st.sampled_from(["DOWN", "DRAIN", "IDLE", "ALLOCATED", "NOT_RESPONDING"]), max_size=3),
        reason=st.sampled_from(["", "slurm-operator: Pod is terminating", "bad HBM, ask Kim", "sparewheel: x (other)"]),
        slurmd_start_time=st.none() | times | st.just(at(-100)),
    ),
)
observations = st.builds(
    Observations,
    node=nodes,
    pods=pods | st.just(Unknown("503")),
    successors=st.just(()) | st.just(Unknown("503")) | st.just((worker(uid="new", node_name="gpu-9"),)),
    slurm_node=slurm_nodes,
    health=st.none() | health_views,
)


@st.composite
def records(draw: st.DrawFn) -> Remediation:
    record = draw(st.sampled_from([remediation, fenced]))()
    if record.status.stages and draw(st.booleans()):
        claimed(record)
        if draw(st.booleans()):
            record.status.replacement.proven_off_at = at(3)
        if draw(st.booleans()):
            record.status.replacement.admitted_at = at(4)
        if draw(st.booleans()):
            record.status.replacement.worker_deleted_at = at(3)
        if draw(st.booleans()):
            record.status = end(NodeStage.DRAINED, at(5))(record.status)
        if draw(st.booleans()):
            record.status.replacement.quarantined_at = at(6)
    if record.status.stages and draw(st.booleans()):
        record.status.stages.append(stage(NodeStage.VETOED, 2))
    if draw(st.booleans()):
        record.status.owned.slurm_down = []
    if record.status.stages:
        record.status.fence = draw(
            st.sampled_from([FenceKind.DOWN, FenceKind.DRAIN, FenceKind.REQUEUE, FenceKind.NONE])
        )
    record.spec.trigger = draw(st.sampled_from(list(Trigger)))
    record.spec.dry_run = draw(st.sampled_from([False, False, False, True]))
    return record


@settings(max_examples=600)
@given(record=records(), seen=observations, now=times)
def test_what_never_happens(record: Remediation, seen: Observations, now: datetime) -> None:
    step = next_step(record, seen, Situation(pool().spec, now))
    done = {todo.action for todo in step.todo}
    deletes = done & DELETING
    replacement = record.status.replacement
    if deletes:
        assert replacement.claimed_at is not None, "nothing is deleted before a spare is claimed"
        assert isinstance(seen.node, NodeView)
        assert about(record, seen.node), "nothing on another incarnation that is not cordoned by us"
        assert not isinstance(seen.pods, Unknown), "a failed look-up deletes nothing"
        assert not any(pod.veto and not pod.finished for pod in seen.pods), "the veto wins"
        assert any(one.name is NodeStage.FENCED and one.ended_at for one in record.status.stages), "fenced first"
    if NodeAction.FORCE_DELETE in done:
        assert replacement.proven_off_at is not None, "no force without proof"
    for todo in step.todo:
        if todo.action in DELETING:
            assert todo.pod is not None
            assert not (todo.pod.daemon and not todo.pod.worker), "daemons stay"
            assert todo.pod.app_name != "sparewheel-agent", "the agent stays"
    if NodeAction.RETIRE in done:
        assert replacement.admitted_at is not None, "the bad host stays until the spare serves"
        assert any(one.name is NodeStage.DRAINED and one.ended_at for one in record.status.stages)
    if NodeAction.RESTORE_SLURM in done:
        assert isinstance(seen.slurm_node, SlurmNodeView)
        assert seen.slurm_node.slurmd_start_time not in {None, record.status.owned.slurmd_started_before}
    if record.spec.dry_run:
        assert done <= {NodeAction.DRY_RUN, NodeAction.OPEN} or any(
            one.name is NodeStage.FENCED for one in record.status.stages
        ), "a dry run touches nothing"
    assert step.done or step.todo or step.waiting_for or step.look_again_seconds > 0, "never stuck in silence"
    assert step.look_again_seconds >= 0


@given(record=records(), seen=observations)
def test_a_closed_incident_does_nothing(record: Remediation, seen: Observations) -> None:
    record.status.outcome = Outcome.HEALED
    assert decide(record, seen).done


# -------------------------------------------------------------------- step by step
def test_first_the_record_then_the_fence() -> None:
    assert actions(remediation(), Observations(node())) == [NodeAction.OPEN]
    known = remediation(stages=[stage(NodeStage.DETECTED, 0, 0)])
    assert actions(known, Observations(node())) == [NodeAction.FENCE]


def test_before_the_fence_it_may_be_called_off_or_wait() -> None:
    known = remediation(stages=[stage(NodeStage.DETECTED, 0, 0)])
    gone = next_step(known, Observations(node()), Situation(pool().spec, at(5), fault_open=False))
    assert [todo.action for todo in gone.todo] == [NodeAction.STAND_DOWN]
    assert "paused" in decide(known, Observations(node()), paused=True).waiting_for
    assert decide(known, Observations(Unknown("503"))).todo == ()
    assert actions(known, Observations(node(uid="another"))) == [NodeAction.SUPERSEDE]


def test_a_fence_once_begun_is_finished_even_when_the_fault_has_gone() -> None:
    begun = remediation(stages=[stage(NodeStage.DETECTED, 0, 0), stage(NodeStage.FENCED, 1)])
    step = next_step(begun, Observations(node()), Situation(pool().spec, at(5), fault_open=False))
    assert [todo.action for todo in step.todo] == [NodeAction.FENCE]


def test_without_a_spare_nothing_is_deleted() -> None:
    record = fenced()
    record.status.stages.append(stage(NodeStage.DRAINED, 1))
    step = decide(record, Observations(CORDONED, pods=(worker(),), health=QUIET), seconds=10_000)
    assert step.todo == ()
    assert step.waiting_for == "a spare"


def test_the_worker_goes_when_its_jobs_are_gone_and_the_others_beside_it() -> None:
    other = PodView("web", "team", "u1", "gpu-7")
    record = claimed(fenced())
    saving = HealthView(heard_seconds_ago=1.0, heard_since_fence=True, jobs_alive=frozenset({7}))
    assert actions(record, Observations(CORDONED, pods=(worker(), other), health=saving)) == [NodeAction.EVICT]
    assert actions(record, Observations(CORDONED, pods=(worker(), other), health=QUIET)) == [
        NodeAction.DELETE_WORKER,
        NodeAction.EVICT,
    ]
    assert actions(record, Observations(CORDONED, pods=(worker(), other)), seconds=302) == [
        NodeAction.DELETE_WORKER,
        NodeAction.DELETE_POD,
    ]
    assert actions(record, Observations(CORDONED, health=QUIET)) == [NodeAction.DRAINED]


def test_a_stuck_worker_needs_proof_before_force() -> None:
    record = claimed(fenced())
    stuck = Observations(node(unschedulable=True, ready=None), pods=(worker(deletion_due=at(3)),), health=QUIET)
    step = decide(record, stuck)
    assert [todo.action for todo in step.todo] == [NodeAction.PROVE_OFF]
    assert "proof that host gpu-7 is off" in step.waiting_for
    record.status.replacement.proven_off_at = at(4)
    assert actions(record, stuck) == [NodeAction.FORCE_DELETE]


def test_a_person_takes_the_node_back_until_it_is_too_late() -> None:
    seen = Observations(node(unschedulable=False), pods=(worker(),), health=QUIET)
    assert actions(fenced(), seen) == [NodeAction.CANCEL]
    late = claimed(fenced())
    late.status.replacement.worker_deleted_at = at(3)
    assert NodeAction.CANCEL not in actions(late, seen)


@pytest.mark.parametrize("seen", [Gone(), node(uid="another")])
def test_a_node_removed_by_others(seen: NodeView | Gone) -> None:
    """medik8s NHO 360: a repair left over after its node is gone."""
    assert "removed by somebody else" in decide(fenced(), Observations(Gone())).waiting_for
    record = fenced()
    record.status.owned.slurm_down = []
    assert actions(record, Observations(seen)) == [NodeAction.SUPERSEDE]


def test_a_node_removed_by_others_after_the_claim_is_replaced_to_the_end() -> None:
    """Its host is quarantined like any bad one."""
    assert actions(claimed(fenced()), Observations(Gone())) == [NodeAction.DRAINED]


def test_after_the_drain_the_bad_host_goes_then_the_end() -> None:
    record = claimed(fenced())
    record.status = end(NodeStage.DRAINED, at(4))(record.status)
    assert decide(record, Observations(CORDONED)).todo == ()
    record.status.replacement.admitted_at = at(5)
    assert actions(record, Observations(CORDONED)) == [NodeAction.RETIRE]
    record.status.replacement.quarantined_at = at(6)
    assert "slurmd to register" in decide(record, Observations(Gone())).waiting_for
    record.status.owned.slurm_down = []
    assert actions(record, Observations(Gone())) == [NodeAction.CLOSE]
