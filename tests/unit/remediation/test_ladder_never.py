"""The ladder, whatever is seen: what must never happen; and what people read of it."""

from __future__ import annotations

from datetime import datetime

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sparewheel.api.enums import NodeActionKind, NodeActionState
from sparewheel.api.faults import Action, Fault
from sparewheel.api.ladder import RebootBy, RungResult
from sparewheel.api.names import ANNOTATION_CANCEL
from sparewheel.api.node_health import NodeAction
from sparewheel.api.remediation import NodeStage, Outcome, Remediation
from sparewheel.cli.timeline import rows
from sparewheel.remediation.decide import ladder, ladder_record
from sparewheel.remediation.decide.happenings import happenings
from sparewheel.remediation.decide.next_step import next_step
from sparewheel.remediation.decide.node_step import NodeAction as Step
from sparewheel.remediation.decide.node_step import NodeStep, Situation
from sparewheel.remediation.decide.observations import (
    Gone,
    HealthView,
    NodeView,
    Observations,
    PodView,
    SlurmNodeView,
    Unknown,
)
from sparewheel.remediation.decide.record import Change, close, end, started
from sparewheel.remediation.decide.recovery import unheard
from sparewheel.remediation.decide.rung_words import result_words
from sparewheel.remediation.decide.sentences import event_body
from tests.support.incidents import NODE, at, node, pool, worker
from tests.support.ladders import (
    PCI,
    REBOOT,
    RESET,
    actions,
    climbing,
    ended_rung,
    health,
    reset_fault,
    rung,
)

# -------------------------------------------------------------------- anything goes in
times = st.integers(min_value=0, max_value=900).map(at)
answers = st.none() | st.builds(
    NodeAction,
    id=st.sampled_from(["gpu-7-xid-79-0.1", "gpu-7-xid-79-0.2", "other"]),
    state=st.sampled_from(list(NodeActionState)),
    time=times,
)
healths = st.none() | st.builds(
    HealthView,
    boot_id=st.sampled_from(["", "boot", "boot-2"]),
    heard_seconds_ago=st.sampled_from([1.0, 60.0]),
    kubelet_silent_seconds=st.sampled_from([None, 1.0, 60.0]),
    heard_since_fence=st.booleans(),
    jobs_alive=st.none() | st.just(frozenset[int]()) | st.just(frozenset({7})),
    faults=st.lists(
        st.builds(
            reset_fault,
            st.sampled_from([PCI, "0000:18:00", ""]),
            st.sampled_from([Action.RECORD, Action.RESET_GPU, Action.REBOOT, Action.REPLACE]),
        ),
        max_size=2,
    ).map(tuple),
    gpus_expected=st.just(8),
    gpus_seen=st.sampled_from([8, 8, 7, None]),
    action=answers,
)
seens = st.builds(
    Observations,
    node=st.builds(
        node, unschedulable=st.sampled_from([True, True, False]), ready=st.sampled_from([True, False, None])
    ),
    pods=st.sampled_from([(), (worker(),), (PodView("web", "team", "u1", NODE),), Unknown("503")]),
    slurm_node=st.sampled_from(
        [
            None,
            Unknown("no answer"),
            SlurmNodeView("gpu-0", frozenset({"DOWN"}), slurmd_start_time=at(-100)),
            SlurmNodeView("gpu-0", frozenset({"DOWN"}), slurmd_start_time=at(50)),
            SlurmNodeView("gpu-0", frozenset({"DOWN", "COMPLETING"})),
        ]
    ),
    health=healths,
)
faults = st.builds(
    reset_fault,
    st.sampled_from([PCI, "0000:18:00", ""]),
    st.sampled_from([Action.RESET_GPU, Action.RESET_GPU, Action.REBOOT, Action.REPLACE, Action.RESTART_JOB]),
)


def apply(record: Remediation, step: NodeStep, now: datetime) -> None:
    """What the stages would journal."""
    for todo in step.todo:
        changes: list[Change] = []
        if todo.action is Step.BEGIN_MENDING:
            changes = [ladder_record.begin_mending(now)]
        elif todo.action is Step.TAKE_RUNG and todo.rung is not None:
            changes = [ladder_record.take_rung(todo.rung)]
        elif todo.action is Step.POWER_CYCLE and todo.rung is not None:
            changes = [ladder_record.send_rung(todo.rung.id, now)]
        elif todo.action is Step.WITHDRAW and todo.rung is not None:
            changes = [ladder_record.withdraw_rung(todo.rung.id, now)]
        elif todo.ended is not None and todo.rung is not None:
            changes = [ladder_record.end_rung(todo.rung.id, todo.ended, now)]
            changes += [ladder_record.helped_late(todo.rung.id, todo.ended, now)] if todo.action is Step.MENDED else []
            changes += [ladder_record.mended("it helped", now)] if todo.action is Step.MENDED else []
        elif todo.action is Step.LADDER_OVER:
            changes = [ladder_record.ladder_over(todo.why, now)]
        for change in changes:
            record.status = change(record.status)


@settings(max_examples=300, deadline=None)
@given(
    looks=st.lists(st.tuples(seens, st.integers(1, 120), st.none() | faults), min_size=1, max_size=14),
    first=faults,
    cancelled_after=st.integers(1, 20),
    reboot_by=st.sampled_from([[RebootBy.HELPER], [RebootBy.BACKEND], list(RebootBy)]),
)
def test_what_never_happens(
    looks: list[tuple[Observations, int, Fault | None]], first: Fault, cancelled_after: int, reboot_by: list[RebootBy]
) -> None:
    record = climbing(first=first)
    record.spec.reboot_by = reboot_by
    record.status.stages.pop()
    seconds = 5
    for number, (seen, pause, more) in enumerate(looks):
        seconds += pause
        if more is not None:
            record.status.more_faults.append(more)
        if number == cancelled_after:
            record.metadata.annotations[ANNOTATION_CANCEL] = "ada at noon: no"
        before = record.model_copy(deep=True)
        step = next_step(record, seen, Situation(pool().spec, at(seconds)))
        _check_step(before, seen, step)
        apply(record, step, at(seconds))
        _check_record(before, record)
        if any(todo.action in {Step.CANCEL, Step.RECOVER} for todo in step.todo):
            break


def _check_step(record: Remediation, seen: Observations, step: NodeStep) -> None:
    done = {todo.action for todo in step.todo}
    view = seen.health if isinstance(seen.health, HealthView) else None
    hung = any(ladder.hung(one) for one in record.status.ladder.rungs)
    hung = bool(unheard(view)) and (hung or (_lost(seen) and bool(record.status.ladder.rungs)))
    if done & {Step.TAKE_RUNG, Step.POWER_CYCLE} and hung:
        (asked_now,) = [todo.rung for todo in step.todo if todo.rung is not None]
        assert asked_now.by is RebootBy.BACKEND, "a host that says nothing any more is only power cycled"
        assert not isinstance(seen.slurm_node, Unknown)
        assert not isinstance(seen.slurm_node, SlurmNodeView) or not seen.slurm_node.busy
    elif done & {Step.TAKE_RUNG, Step.ASK_HELPER, Step.POWER_CYCLE}:
        assert view is not None
        assert view.jobs_alive == frozenset(), "nothing is asked for under a running job"
        assert view.heard_since_fence, "nor on an old report"
        assert not isinstance(seen.slurm_node, Unknown), "nor while Slurm can't be asked"
        assert not isinstance(seen.slurm_node, SlurmNodeView) or not seen.slurm_node.busy
    if Step.POWER_CYCLE in done:
        rung_now = ladder.open_rung(record.status)
        assert rung_now is not None
        assert rung_now.sent_at is None, "the backend is told once"
    if Step.TAKE_RUNG in done:
        assert isinstance(seen.pods, tuple)
        assert all(pod.worker for pod in seen.pods), "other pods have left"
        assert not any(fault.action is Action.REPLACE for fault in [record.spec.fault, *record.status.more_faults])
    if Step.MENDED in done:
        assert view is not None
        assert view.gpus_seen == 8
        assert view.heard_since_fence
        assert not any(one.action is not Action.RECORD for one in view.faults), "no fault is open"
        last = record.status.ladder.rungs[-1]
        assert last.kind is RESET or view.boot_id == "boot-2", "a reboot is proven by another boot alone"
    for todo in step.todo:
        if todo.ended is not None and todo.ended.result is RungResult.LOST:
            assert todo.rung is not None
            assert todo.rung.kind is RESET, "a host that reboots is silent by nature"
            assert _lost(seen)
    if done & {Step.BEGIN_DRAIN, Step.CANCEL}:
        assert ladder.open_rung(record.status) is None, "not in the middle of a rung"
    if Step.BEGIN_DRAIN in done:
        assert not ladder.stays_first(record)
    assert step.todo or step.waiting_for or step.done, "never stuck in silence"


def _lost(seen: Observations) -> bool:
    """Agent and kubelet both silent for longer than a pool's 40 s."""
    view, there = seen.health, seen.node
    if not isinstance(view, HealthView) or not isinstance(there, NodeView):
        return False
    kubelet = there.ready is None or (view.kubelet_silent_seconds or 0.0) > 40
    return view.heard_seconds_ago > 40 and kubelet


def _check_record(before: Remediation, record: Remediation) -> None:
    old, new = before.status.ladder, record.status.ladder
    last = old.rungs[-1] if old.rungs else None
    late = last is not None and (
        last.ended_at is None or (last.result is RungResult.SILENT and new.mended_at is not None)
    )
    assert new.rungs[: len(old.rungs)] == old.rungs or late, "what has ended stays"
    kinds = [(one.kind, one.device, one.by) for one in new.rungs]
    assert len(kinds) == len(set(kinds)), "no rung twice"
    nothing = {RungResult.SILENT, RungResult.NOT_ASKED}
    done = [one for one in new.rungs if one.kind is REBOOT and one.result not in nothing and not ladder.hung(one)]
    assert len(done) <= 1, "no second reboot"
    assert len({one.id for one in new.rungs}) == len(new.rungs)
    assert not (new.mended_at and new.over_at), "one end"
    assert sum(one.ended_at is None for one in new.rungs) <= 1, "one at a time"


@given(
    seconds=st.integers(0, 2000),
    view=healths,
    lost=st.sampled_from(["", "silent"]),
    kind=st.sampled_from([RESET, REBOOT]),
)
def test_a_rung_never_lasts_longer_than_its_time_nor_a_reset_longer_than_its_host(
    seconds: int, view: HealthView | None, lost: str, kind: NodeActionKind
) -> None:
    taken = rung(kind)
    ended = ladder.how_it_ended(taken, view, "ill", at(10 + seconds), asked=True, lost=lost)
    assert ended is not None or (seconds < taken.timeout_seconds and not (lost and kind is RESET))
    unlost = ladder.how_it_ended(taken, view, "ill", at(10 + seconds), asked=True)
    assert kind is RESET or ended == unlost, "a reboot has its whole time"


@pytest.mark.parametrize("seen", [Gone(), node(uid="another")])
def test_a_node_that_is_gone_or_new_is_not_mended_any_more(seen: NodeView | Gone) -> None:
    record = climbing(rung(REBOOT))
    assert actions(record, Observations(seen, health=health(boot_id="boot-2"))) == [Step.END_RUNG]
    record.status = ladder_record.end_rung(rung().id, ladder.Ended(RungResult.WITHDRAWN), at(30))(record.status)
    assert actions(record, Observations(seen, health=health())) == [Step.LADDER_OVER]
    record.status = ladder_record.ladder_over("gone", at(31))(record.status)
    assert not ladder.stays_first(record), "a spare is looked for"


def test_a_spare_that_is_claimed_leaves_no_room_for_a_rung() -> None:
    record = climbing()
    record.status.replacement.claimed_at = at(3)
    assert ladder_record.take_rung(rung())(record.status) == record.status
    assert not ladder.stays_first(record)


def test_an_incident_that_ends_leaves_no_rung_open() -> None:
    record = climbing(rung())
    record.status = close(Outcome.SUPERSEDED, at(30), "gone")(record.status)
    assert record.status.ladder.rungs[0].result is RungResult.WITHDRAWN


def test_a_stage_that_ended_stays_ended() -> None:
    record = climbing()
    record.status = end(NodeStage.MENDED, at(9), "x")(record.status)
    assert started(ladder_record.begin_mending(at(20))(record.status), NodeStage.MENDED)
    assert ladder_record.begin_mending(at(20))(record.status) == record.status


# -------------------------------------------------------------------- what people read
def test_each_rung_is_a_row_of_the_timeline_and_two_events() -> None:
    record = climbing(ended_rung(RungResult.TIMED_OUT, message="XID 119 is still open"), rung(REBOOT, 40, id="x.2"))
    told = {row.stage: (row.start_seconds, row.end_seconds, row.message) for row in rows(record) if row.track == "node"}
    words = f"reset of GPU {PCI} did not help: timed out after 30 s (XID 119 is still open)"
    assert told[f"reset_gpu {PCI}"] == (10.0, 40.0, words)
    assert told["reboot"] == (40.0, None, "reboot is under way")
    notes = {one.key: one.note for one in happenings(record) if one.key.startswith("rung")}
    assert notes == {
        "rung-1-asked": f"Asked the node's helper: reset of GPU {PCI}, for up to 60 s",
        "rung-1": f"R{words[1:]}",
        "rung-2-asked": "Asked the node's helper: reboot, for up to 600 s",
    }
    assert result_words(ended_rung(RungResult.SUCCEEDED)) == f"reset of GPU {PCI} helped after 30 s"


def test_the_first_message_says_what_is_tried() -> None:
    record = climbing()
    text = event_body(record, "incident.detected", at(1))["text"]
    assert f"its helper is asked for a reset of GPU {PCI} (60 s), then reboot (600 s)" in text
    record.spec.ladder, record.spec.ladder_off = [], "node gpu-7 was mended 2 times"
    text = event_body(record, "incident.detected", at(1))["text"]
    assert "is being replaced from spare capacity, because node gpu-7 was mended 2 times." in text
