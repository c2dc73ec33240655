"""A node that is only cordoned: when it is well again, and when more is to be done."""

from __future__ import annotations

from typing import Any

import pytest

from sparewheel.api.faults import Action, Fault
from sparewheel.api.names import ANNOTATION_CANCEL
from sparewheel.api.remediation import FenceKind, Remediation
from sparewheel.remediation.decide.fence_record import fence_again
from sparewheel.remediation.decide.next_step import NodeAction, Situation, next_step
from sparewheel.remediation.decide.observations import HealthView, Observations
from sparewheel.remediation.decide.record import recovered
from tests.support.incidents import at, fault, fenced, node, pool

WELL = HealthView(heard_seconds_ago=1, heard_since_fence=True, gpus_expected=8, gpus_seen=8)


def cordoned(*more: Fault) -> Remediation:
    record = fenced(jobs=[])
    record.spec.fault = fault(action=Action.CORDON)
    record.status.fence, record.status.more_faults = FenceKind.CORDON, list(more)
    return record


def step_of(record: Remediation, health: HealthView, **of_node: Any) -> tuple[list[NodeAction], str]:
    seen = Observations(node=node(**{"unschedulable": True, **of_node}), health=health)
    step = next_step(record, seen, Situation(pool().spec, at(60)))
    return [todo.action for todo in step.todo], step.waiting_for


@pytest.mark.parametrize("first", [0, 1])
def test_a_node_with_two_faults_is_well_only_when_both_are_gone_in_either_order(first: int) -> None:
    """NVSentinel 458 and 1468: GPU 0 recovers, GPU 3 still fails."""
    both = [fault(action=Action.CORDON), fault(device="0000:65:00", action=Action.CORDON)]
    record = cordoned(both[1])
    for open_faults, well in ((tuple(both), False), ((both[first],), False), ((), True)):
        health = HealthView(
            heard_seconds_ago=1, heard_since_fence=True, faults=open_faults, gpus_expected=8, gpus_seen=8
        )
        todo, waits = step_of(record, health)
        assert (todo == [NodeAction.RECOVER]) is well
        assert ("still open" in waits) is not well


@pytest.mark.parametrize(
    "health",
    [
        HealthView(heard_seconds_ago=60, heard_since_fence=True, gpus_expected=8, gpus_seen=8),
        HealthView(heard_seconds_ago=1, heard_since_fence=False, gpus_expected=8, gpus_seen=8),
        HealthView(heard_seconds_ago=1, heard_since_fence=True, gpus_expected=8, gpus_seen=None),
        HealthView(heard_seconds_ago=1, heard_since_fence=True, gpus_expected=8, gpus_seen=7),
    ],
    ids=["silent", "of before the fence", "not counted", "seven of eight"],
)
def test_a_node_that_is_not_known_to_be_well_stays_cordoned(health: HealthView) -> None:
    todo, waits = step_of(cordoned(), health)
    assert todo == []
    assert waits.startswith("a person or a recovery")
    assert step_of(cordoned(), WELL)[0] == [NodeAction.RECOVER]


@pytest.mark.parametrize(("offered", "words"), [(7, "the Node offers 7 of 8 GPUs"), (None, "is not known")])
def test_a_node_that_does_not_offer_all_its_gpus_stays_cordoned(offered: int | None, words: str) -> None:
    todo, waits = step_of(cordoned(), WELL, gpus_offered=offered)
    assert todo == []
    assert words in waits


def test_a_node_that_is_being_given_back_is_nobodys_call_off_however_it_looks() -> None:
    """The controller died between the uncordon and the end."""
    record = cordoned()
    record.status.owned.cordon = True
    record.status = recovered("the fault is gone", at(50))(record.status)
    for open_faults in ((), (fault(action=Action.CORDON),)):
        view = HealthView(heard_seconds_ago=1, heard_since_fence=True, faults=open_faults, gpus_expected=8, gpus_seen=8)
        assert step_of(record, view, unschedulable=False)[0] == [NodeAction.RECOVER]
    worse = record.model_copy(deep=True)
    worse.status.more_faults.append(fault("XID 79", device="0000:65:00"))
    assert step_of(worse, WELL, unschedulable=False)[0] == [NodeAction.FENCE_AGAIN], "a worse fault came meanwhile"
    assert fence_again(at(60))(worse.status).recovered_at is None
    record.metadata.annotations[ANNOTATION_CANCEL] = "ada at noon: no"
    assert step_of(record, WELL, unschedulable=False)[0] == [NodeAction.RECOVER]


def test_a_worse_fault_makes_more_of_a_cordon() -> None:
    worse = cordoned(fault("XID 79", device="0000:65:00"))
    assert step_of(worse, WELL)[0] == [NodeAction.FENCE_AGAIN]
