"""The steps around a rung of the ladder: before it, between two, and after the last."""

from __future__ import annotations

from datetime import timedelta

from sparewheel.api.enums import NodeActionState
from sparewheel.api.faults import Action
from sparewheel.api.ladder import RungResult
from sparewheel.api.names import ANNOTATION_CANCEL
from sparewheel.api.node_action import from_annotation, to_annotation
from sparewheel.api.remediation import FenceKind, Remediation
from sparewheel.remediation.decide import ladder, ladder_record
from sparewheel.remediation.decide.budget import FleetLimits
from sparewheel.remediation.decide.node_step import NodeAction as Step
from sparewheel.remediation.decide.observations import (
    Observations,
    PodView,
    SlurmNodeView,
    Unknown,
)
from sparewheel.remediation.decide.spares import SpareAction, next_spare_step
from tests.support.incidents import NODE, at, node, pool, worker
from tests.support.ladders import (
    CORDONED,
    FAULTY,
    PCI,
    REBOOT,
    actions,
    answer,
    asked,
    climbing,
    decide,
    ended_rung,
    health,
    reset_fault,
    rung,
)


def test_a_rung_is_journalled_then_asked_for_then_waited_for() -> None:
    record = climbing()
    seen = Observations(CORDONED, (worker(),), health=health(faults=FAULTY))
    (todo,) = decide(record, seen).todo
    assert todo.action is Step.TAKE_RUNG
    assert todo.rung is not None
    assert (todo.rung.device, todo.rung.boot_id, todo.rung.timeout_seconds) == (PCI, "boot", 60)
    record.status = ladder_record.take_rung(todo.rung)(record.status)
    assert actions(record, seen, 21) == [Step.ASK_HELPER]
    carried = Observations(asked(todo.rung), (worker(),), health=health(faults=FAULTY))
    step = decide(record, carried, 22)
    assert (step.todo, step.waiting_for) == ((), f"reset of GPU {PCI} by the node's helper, for up to 60 s")
    request = from_annotation(to_annotation(ladder.request_of(todo.rung)))
    assert request.deadline == todo.rung.asked_at + timedelta(seconds=30)


def test_before_a_rung_everybody_leaves() -> None:
    record = climbing()
    web = PodView("web", "team", "u1", NODE)
    busy = SlurmNodeView("gpu-0", frozenset({"DOWN", "COMPLETING"}))
    assert actions(record, Observations(CORDONED, (worker(), web), health=health())) == [Step.EVICT]
    assert actions(record, Observations(CORDONED, (worker(), web), health=health()), 303) == [Step.DELETE_POD]
    for seen in (
        Observations(CORDONED, (worker(),), health=health(jobs_alive=frozenset({7}))),
        Observations(CORDONED, (worker(),), health=health(jobs_alive=None)),
        Observations(CORDONED, (worker(),), health=health(heard_seconds_ago=20.0)),
        Observations(CORDONED, (worker(),), health=None),
        Observations(CORDONED, (worker(),), slurm_node=busy, health=health()),
        Observations(CORDONED, (worker(),), slurm_node=Unknown("no answer"), health=health()),
    ):
        step = decide(record, seen)
        assert step.todo == ()
        assert f"before the reset of GPU {PCI}" in step.waiting_for
        assert actions(record, seen, 1000) == [Step.LADDER_OVER], "not for ever"
        record.status.fence = FenceKind.DRAIN
        assert actions(record, seen, 1000) == [], "the breaker lets jobs run"
        record.status.fence = FenceKind.DOWN


def test_when_no_rung_is_left_it_is_replaced() -> None:
    record = climbing(
        ended_rung(RungResult.TIMED_OUT, message="XID 119 is still open"), ended_rung(RungResult.REFUSED, REBOOT)
    )
    (todo,) = decide(record, Observations(CORDONED, health=health())).todo
    assert todo.action is Step.LADDER_OVER
    record.status = ladder_record.ladder_over(todo.why, at(50))(record.status)
    assert record.status.ladder.why.startswith(
        f"reset of GPU {PCI} did not help: timed out after 30 s (XID 119 is still"
    )
    assert actions(record, Observations(CORDONED, health=health())) == [Step.BEGIN_DRAIN]


def test_no_spare_is_claimed_before_the_ladder_is_over() -> None:
    def step(record: Remediation) -> SpareAction:
        return next_spare_step(record, pool().spec, "", [], at(60), FleetLimits()).action

    record = climbing()
    assert step(record) is SpareAction.NONE
    record.status.stages.pop()
    assert step(record) is SpareAction.NONE, "not begun yet"
    assert step(climbing(rung())) is SpareAction.NONE
    record.status = ladder_record.ladder_over("nothing helped", at(50))(record.status)
    assert step(record) is SpareAction.CLAIM
    record = climbing(first=reset_fault(action=Action.REPLACE))
    record.status.stages.pop()
    assert step(record) is SpareAction.CLAIM


def test_once_well_it_is_given_back_whatever_comes() -> None:
    record = climbing(rung())
    record.status = ladder_record.mended("it helped", at(40))(record.status)
    for seen in (node(unschedulable=False), CORDONED):
        assert actions(record, Observations(seen, health=None)) == [Step.RECOVER]
    record.metadata.annotations[ANNOTATION_CANCEL] = "ada at noon: no"
    assert actions(record, Observations(CORDONED, health=None)) == [Step.RECOVER]


def test_called_off_the_request_is_taken_back_and_a_helper_that_has_begun_is_waited_for() -> None:
    record = climbing(rung(REBOOT))
    record.metadata.annotations[ANNOTATION_CANCEL] = "ada at noon: no"
    seen = Observations(asked(rung(REBOOT)), health=health())
    assert actions(record, seen) == [Step.WITHDRAW]
    record.status = ladder_record.withdraw_rung(rung().id, at(21))(record.status)
    assert actions(record, seen, 22) == [], "it may have been read just before"
    assert actions(record, seen, 41) == [Step.END_RUNG]
    down = Observations(CORDONED, health=health(answer(NodeActionState.RUNNING)))
    assert actions(record, down, 300) == []
    assert actions(record, down, 610) == [Step.END_RUNG]
    assert actions(record, Observations(CORDONED, health=health(boot_id="boot-2", faults=FAULTY)), 300) == [
        Step.END_RUNG
    ]
    record.status = ladder_record.end_rung(rung().id, ladder.Ended(RungResult.WITHDRAWN), at(41))(record.status)
    assert actions(record, down, 42) == [Step.CANCEL]
