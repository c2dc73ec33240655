"""A job that ended by itself and is held: who is told so, who must wait, and which fault may be to blame."""

from __future__ import annotations

from typing import Any

import pytest

from sparewheel.api.faults import Action, Sighting
from sparewheel.api.remediation import FenceKind, JobRecord, Outcome, Remediation
from sparewheel.remediation.decide.observations import JobView
from sparewheel.remediation.decide.own_end import OwnEnd, claimable, doubts, ended_by_itself, is_told, own_end_sentence
from tests.support.incidents import NODE, at, fault, fenced, job

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


def test_each_attempt_is_told_once() -> None:
    comment = f"mine | sparewheel: {own_end_sentence(held())}"
    assert is_told(held(comment=comment))
    assert not is_told(held(comment=comment, restart_count=4)), "another attempt"
    assert not is_told(held(comment="mine"))


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


def end(nodes: frozenset[str] = NODES, since: float = -45, until: float = 45) -> OwnEnd:
    """The fault of ``incident()`` is at 0, within the time in which it may be to blame."""
    hosts = frozenset({NODE, "gpu-8"}) if nodes else nodes
    return OwnEnd(7, nodes, hosts, at(since), at(until))


def test_an_open_incident_on_a_node_of_the_job_may_still_claim_it() -> None:
    assert claimable(end(), [incident()])
    assert claimable(end(since=500, until=600), [incident()]), "however long ago it began"
    assert claimable(end(frozenset()), [incident()]), "where it ran is not known: it may have been there"
    assert not claimable(end(frozenset({"gpu-5"})), [incident()]), "it is elsewhere"
    assert not claimable(end(), [])


@pytest.mark.parametrize("outcome", [Outcome.HEALED, Outcome.CANCELLED, Outcome.FAILED, Outcome.SUPERSEDED])
def test_an_incident_that_ended_without_listing_the_job_leaves_its_end_to_the_job(outcome: Outcome) -> None:
    ended = incident(outcome=outcome)
    assert not claimable(end(), [ended])
    assert doubts(end(), [ended], {}) == ""
    assert doubts(end(), [ended], {NODE: [fault()]}) == "", "its fault, which the node's report still shows"


def test_a_job_that_an_incident_still_follows_is_that_incidents() -> None:
    followed = incident(outcome=Outcome.HEALED, jobs=[JobRecord(job_id=7)])
    assert claimable(end(frozenset({"gpu-5"})), [followed])
    done = incident(outcome=Outcome.HEALED, jobs=[JobRecord(job_id=7, closed=True)])
    assert not claimable(end(frozenset({"gpu-5"})), [done])


def dry_run() -> Remediation:
    return incident(outcome=Outcome.DRY_RUN, fence=FenceKind.UNDECIDED, jobs_listed_at=None)


def test_what_nobody_judged_leaves_a_doubt_and_no_silence() -> None:
    assert not claimable(end(), [dry_run()])
    doubt = doubts(end(), [dry_run()], {})
    assert doubt.startswith("node gpu-7 failed: XID 79 on GPU 3")
    assert doubts(end(frozenset()), [dry_run()], {}) == doubt
    assert doubts(end(frozenset({"gpu-5"})), [dry_run()], {}) == "", "it is elsewhere"
    assert doubts(end(since=500, until=600), [dry_run()], {}) == "", "it was long before"
    assert doubts(end(since=-600, until=-500), [dry_run()], {}) == "", "it was long after"
    text = own_end_sentence(held(), doubt)
    assert text.startswith(f"attempt 2 ended by itself with exit code 2; about then {doubt}")
    assert "the job's own" not in text
    assert "scontrol release 7" in text


def test_an_incident_counts_by_the_api_servers_clock_too() -> None:
    found = dry_run()
    found.metadata.creation_timestamp = at(600)
    assert doubts(end(since=500, until=650), [found], {}), "the node's clock was behind"


def test_a_reported_fault_of_which_nothing_was_made_leaves_a_doubt() -> None:
    assert doubts(end(), [], {NODE: [fault(first_seen=at(10))]}).startswith("node gpu-7 failed: XID 79")
    assert doubts(end(), [], {"gpu-3": [fault()]}) == "", "it is elsewhere"
    assert doubts(end(), [], {NODE: [fault(first_seen=at(-500))]}) == "", "long before"
    assert doubts(end(), [], {NODE: [fault(first_seen=at(500))]}) == "", "long after"
    assert doubts(end(), [], {NODE: [fault("XID 31", action=Action.RECORD)]}) == "", "the job's own"
    assert doubts(end(), [incident(outcome=Outcome.HEALED)], {NODE: [fault("XID 48")]}), "another fault was judged"


def test_a_fault_that_hits_jobs_counts_by_when_it_was_seen() -> None:
    hits = fault("XID 94", action=Action.RESTART_JOB, first_seen=at(-500), last_seen=at(900))
    assert doubts(end(), [], {NODE: [hits]}) == ""
    hits.recent = [Sighting(time=at(5))]
    assert "XID 94" in doubts(end(), [], {NODE: [hits]})
