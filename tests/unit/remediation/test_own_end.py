"""A job that ended by itself and is held: who is told so, and who is not because a fault may be to blame."""

from __future__ import annotations

from typing import Any

import pytest

from sparewheel.api.faults import Action
from sparewheel.api.remediation import JobRecord, Outcome, Remediation
from sparewheel.remediation.decide.observations import JobView
from sparewheel.remediation.decide.own_end import ended_by_itself, own_end_sentence, touched, unhandled
from tests.support.incidents import at, fault, fenced, job

NODES = frozenset({"gpu-0", "gpu-1"})


def held(**fields: Any) -> JobView:
    values: dict[str, Any] = {
        "states": {"PENDING", "REQUEUE_HOLD"},
        "state_reason": "JobHeldUser",
        "nodes": frozenset[str](),
        "restart_count": 3,
        "exit_code": 2,
    }
    return job(**{**values, **fields})


def test_the_sentence_names_the_attempt_the_end_and_the_next_step() -> None:
    text = own_end_sentence(held())
    assert text.startswith("attempt 2 ended by itself with exit code 2; that is the job's own")
    assert "scontrol release 7" in text
    assert "signal 9" in own_end_sentence(held(exit_code=0, exit_signal=9))


def test_an_expedited_job_held_for_its_own_end_is_one() -> None:
    assert ended_by_itself(held())


@pytest.mark.parametrize(
    "fields",
    [
        {"state_reason": "job_requeued_in_held_state"},
        {"states": {"PENDING"}},
        {"states": {"PENDING", "EXPEDITING"}, "state_reason": ""},
        {"exit_code": 0},
        {"exit_code": None},
        {"restart_count": 0},
        {"expedited": False},
        {"batch": False},
    ],
)
def test_a_job_that_waits_for_another_reason_is_none(fields: dict[str, Any]) -> None:
    assert not ended_by_itself(held(**fields))


def incident(**status: Any) -> Remediation:
    found = fenced()
    found.spec.slurm_node = "gpu-0"
    found.status = found.status.model_copy(update={"jobs": [], **status})
    return found


def test_an_incident_on_a_node_of_the_job_may_be_to_blame() -> None:
    assert touched(7, NODES, [incident()], at(500)), "it is open"
    assert touched(7, NODES, [incident(outcome=Outcome.DRY_RUN)], at(-10)), "its fault came about then"
    assert not touched(7, NODES, [incident(outcome=Outcome.HEALED)], at(500)), "it was over long before"
    assert not touched(7, frozenset({"gpu-5"}), [incident()], at(500)), "it is elsewhere"
    assert not touched(7, NODES, [], at(0))


def test_an_incident_counts_by_the_api_servers_clock_too() -> None:
    found = incident(outcome=Outcome.DRY_RUN)
    found.metadata.creation_timestamp = at(600)
    assert touched(7, NODES, [found], at(500)), "the node's clock was behind"


def test_a_fault_of_which_nothing_was_made_may_be_to_blame() -> None:
    assert unhandled([fault(first_seen=at(10))], at(5))
    assert not unhandled([fault(first_seen=at(10))], at(500)), "long over"
    assert not unhandled([fault("XID 31", action=Action.RECORD, first_seen=at(10))], at(5)), "the job's own"


def test_where_a_job_ran_that_is_not_known_is_everywhere() -> None:
    assert touched(7, frozenset(), [incident()], at(500))


def test_a_job_that_an_incident_still_follows_is_that_incidents() -> None:
    followed = incident(outcome=Outcome.HEALED, jobs=[JobRecord(job_id=7)])
    assert touched(7, frozenset({"gpu-5"}), [followed], at(500))
    done = incident(outcome=Outcome.HEALED, jobs=[JobRecord(job_id=7, closed=True)])
    assert not touched(7, frozenset({"gpu-5"}), [done], at(500))
