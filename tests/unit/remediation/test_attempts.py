"""When repairing is no cure: the same fault right after each of some repairs, and nobody repairs for ever."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sparewheel.api.faults import Action
from sparewheel.api.remediation import NodeStage, Outcome, Remediation, Trigger
from sparewheel.api.remediation_policy import RemediationPolicySpec
from sparewheel.remediation.decide.attempts import hold_reason
from sparewheel.remediation.decide.next_step import NodeAction, Situation, next_step
from sparewheel.remediation.decide.observations import Observations
from sparewheel.remediation.decide.spares import SpareAction, next_spare_step
from tests.support.incidents import at, fault, fenced, node, pool, remediation, stage

POLICY = RemediationPolicySpec(max_attempts=3, attempt_window_seconds=600)


def repair(number: int, begun: float, closed: float, on: str, spare: str, code: str = "XID 79") -> Remediation:
    record = remediation(f"r{number}", fault=fault(code), outcome=Outcome.HEALED)
    record.spec.node, record.status.replacement.spare_node = on, spare
    record.status.stages = [stage(NodeStage.DETECTED, begun, begun), stage(NodeStage.CLOSED, closed, closed)]
    return record


def chain(length: int, pause: float = 60.0) -> list[Remediation]:
    """n0 is replaced by n1, which is replaced by n2, ...; each repair takes 100 s."""
    step = 100 + pause
    return [repair(i, i * step, i * step + 100, f"n{i}", f"n{i + 1}") for i in range(length)]


def held(history: list[Remediation], on: str, now: float, **fields: Any) -> str:
    spec = remediation(**fields).spec
    spec.node = on
    return hold_reason(spec, POLICY, history, at(now))


@given(length=st.integers(0, 6), pause=st.sampled_from([0.0, 60.0, 599.0, 601.0]))
def test_a_person_is_called_after_so_many_repairs_in_a_row(length: int, pause: float) -> None:
    """NVSentinel 1543: the same XID right after each of four repairs, for ever."""
    found = held(chain(length, pause), f"n{length}", length * (100 + pause))
    assert bool(found) is (length >= 3 and pause <= 600)
    if found:
        assert f"each of {length} repairs" in found


def test_the_same_node_repaired_again_and_again_is_a_chain_too() -> None:
    again = [repair(i, i * 160, i * 160 + 100, "n0", "") for i in range(3)]
    assert held(again, "n0", 480)
    assert held(again[:2], "n0", 320) == ""


@pytest.mark.parametrize("change", ["another code", "another node", "not healed", "a dry run", "cordon only"])
def test_what_is_no_repair_of_this_fault_breaks_the_chain(change: str) -> None:
    history = chain(3)
    match change:
        case "another code":
            history[1] = repair(1, 160, 260, "n1", "n2", code="XID 48")
        case "another node":
            history[1] = repair(1, 160, 260, "x", "y")
        case "not healed":
            history[1].status.outcome = Outcome.CANCELLED
        case "a dry run":
            history[1].spec.dry_run = True
        case _:
            history[1].spec.fault = fault(action=Action.CORDON)
    assert held(history, "n3", 480) == ""


def test_a_persons_request_and_a_dry_run_are_never_held() -> None:
    assert held(chain(4), "n4", 640, trigger=Trigger.MANUAL) == ""
    assert held(chain(4), "n4", 640, dry_run=True) == ""
    assert held(chain(4), "n4", 640, fault=fault(action=Action.CORDON)) == ""


def test_a_held_incident_is_fenced_and_nothing_more_until_a_person_asks() -> None:
    record = fenced()
    record.spec.hold = "XID 79 came back right after each of 3 repairs"
    seen = Observations(node=node(unschedulable=True))
    step = next_step(record, seen, Situation(pool().spec, at(60)))
    assert [todo.action for todo in step.todo] == [NodeAction.HOLD]
    assert step.waiting_for.startswith("a person: XID 79 came back")
    assert next_spare_step(record, pool().spec, "", [], at(60)).action is SpareAction.NONE
    record.status.more_faults = [fault("MANUAL", device="", message="kim")]
    assert next_spare_step(record, pool().spec, "", [], at(60)).action is SpareAction.CLAIM
    assert NodeAction.HOLD not in [todo.action for todo in next_step(record, seen, Situation(pool().spec, at(60))).todo]
