"""The job track: who is a victim, what becomes of each job, what is left for the controller."""

from __future__ import annotations

import json
from datetime import datetime
from typing import Any

import pytest

from sparewheel.api.remediation import FenceKind, JobRecord, Outcome
from sparewheel.remediation.decide.jobs import JobAction, follow, still_to_requeue, victims, why_not
from sparewheel.remediation.decide.observations import Gone, JobView
from sparewheel.remediation.decide.progress import read_progress
from sparewheel.remediation.decide.sentences import clock, job_sentence
from tests.support.incidents import at, fenced, job

PLACES = {"gpu-0": "host-a", "gpu-1": "host-b"}


def found(*jobs: JobView, remembered: dict[int, frozenset[str]] | None = None) -> list[JobRecord]:
    return victims(jobs, "gpu-0", remembered or {}, at(0), 30.0, PLACES)


# -------------------------------------------------------------------- victims
def test_jobs_that_run_on_the_node_are_victims_and_others_are_not() -> None:
    records = found(
        job(), job(job_id=8, nodes=frozenset({"gpu-1"})), job(job_id=9, states={"PENDING"}, nodes=frozenset())
    )
    assert [record.job_id for record in records] == [7]
    assert not records[0].crashed_by_itself


@pytest.mark.parametrize("end", [-29.0, 0.0, 5.0])
def test_a_job_that_the_fault_ended_before_the_fence_is_a_victim(end: float) -> None:
    (record,) = found(job(states={"FAILED"}, exit_code=1, end_time=at(end)))
    assert record.crashed_by_itself
    assert record.stopping_at == at(end)


@pytest.mark.parametrize(
    "fields",
    [
        {"states": {"FAILED"}, "exit_code": 1, "end_time": at(-31)},
        {"states": {"CANCELLED"}, "exit_code": 0, "exit_signal": 15, "end_time": at(1)},
        {"states": {"COMPLETED"}, "exit_code": 0, "end_time": at(1)},
        {"states": {"TIMEOUT"}, "exit_code": 1, "end_time": at(1)},
        {"states": {"FAILED"}, "exit_code": 1, "end_time": at(1), "nodes": frozenset({"gpu-1"})},
    ],
)
def test_a_job_that_ended_otherwise_is_none(fields: dict[str, Any]) -> None:
    assert found(job(**fields)) == []


def test_an_expedited_job_that_slurm_requeued_itself_is_known_from_memory() -> None:
    """It has left the node: held (no Epilog failed), pending, or running elsewhere already."""
    gone = {"nodes": frozenset[str](), "restart_count": 1}
    remembered = {7: frozenset({"gpu-0", "gpu-1"})}
    for view in (
        job(states={"PENDING", "REQUEUE_HOLD"}, state_reason="JobHeldUser", **gone),
        job(states={"PENDING"}, **gone),
        job(states={"RUNNING"}, nodes=frozenset({"gpu-1", "gpu-2"}), restart_count=1, start_time=at(1)),
    ):
        (record,) = found(view, remembered=remembered)
        assert (record.crashed_by_itself, record.attempt_before) == (True, 0)
        assert record.hosts_before == ["host-a", "host-b"]
        assert found(view) == [], "not seen there, not a victim"
    long_ago = job(states={"RUNNING"}, nodes=frozenset({"gpu-1"}), restart_count=1, start_time=at(-500))
    assert found(long_ago, remembered=remembered) == []


@pytest.mark.parametrize(
    ("fields", "words"),
    [
        ({"batch": False}, "srun or salloc"),
        ({"requeue": False}, "--no-requeue"),
    ],
)
def test_a_job_that_does_not_come_back_says_why(fields: dict[str, Any], words: str) -> None:
    (record,) = found(job(**fields))
    assert words in record.not_requeued_reason
    assert words in follow_text(record)


def test_a_heterogeneous_job_comes_back_as_a_whole() -> None:
    first = job(job_id=46, het_job_id=46, nodes=frozenset({"gpu-1"}), expedited=False)
    second = job(job_id=47, het_job_id=46, nodes=frozenset({"gpu-0"}), expedited=False)
    other = job(job_id=48, nodes=frozenset({"gpu-2"}))
    records = found(first, second, other)
    assert sorted(record.job_id for record in records) == [46, 47]
    assert not any(record.not_requeued_reason for record in records)
    assert "heterogeneous" in why_not(second, crashed=True)


def test_an_array_task_comes_back_by_slurm_but_not_when_it_had_ended_by_itself() -> None:
    assert why_not(job(array=True), crashed=False) == ""
    assert "array" in why_not(job(array=True), crashed=True)


def follow_text(record: JobRecord) -> str:
    return follow(fenced(jobs=[record]), record, job(states={"NODE_FAIL"}, end_time=at(2)), at(3)).record.message


@pytest.mark.parametrize(("requeued", "stopped"), [(-12.0, -12.0), (-500.0, 0.0), (3.0, 0.0), (None, 0.0)])
def test_a_job_that_slurm_requeued_ended_when_it_was_requeued(requeued: float | None, stopped: float) -> None:
    when = at(requeued) if requeued is not None else None
    view = job(states={"PENDING"}, nodes=frozenset[str](), restart_count=1, exit_code=3, submit_time=when)
    (listed,) = found(view, remembered={7: frozenset({"gpu-0"})})
    assert (listed.stopping_at, listed.ended_with) == (at(stopped), "exit code 3")
    text = job_sentence(fenced(jobs=[listed]), listed)
    assert text.startswith("Attempt 0 ended by itself ")
    known = f"at {clock(at(-12))} with exit code 3, 12 s before it was seen that node gpu-7 failed"
    assert (known in text) == (requeued == -12.0)
    assert "; so it is taken to be the node's doing and not the job's." in text


# -------------------------------------------------------------------- following
def record(**fields: Any) -> JobRecord:
    return JobRecord.model_validate({"job_id": 7, "user": "ada", "expedited": True, "stopping_at": at(1), **fields})


def look(rec: JobRecord, view: JobView | Gone, seconds: float = 5.0) -> tuple[JobRecord, tuple[JobAction, ...]]:
    followed = follow(fenced(jobs=[rec]), rec, view, at(seconds))
    return followed.record, followed.actions


def extra(attempt: int, when: datetime, resumed: int | None = 100) -> str:
    report = {
        "attempt": attempt,
        "resumed_from_step": resumed,
        "first_step": (resumed or 0) + 1,
        "first_step_time": when.isoformat(),
    }
    return json.dumps({"sparewheel": report})


def test_stopping_requeued_started_resumed() -> None:
    one, _ = look(record(), job(states={"PENDING", "COMPLETING"}, nodes=frozenset(), restart_count=1))
    assert one.requeued_at is None, "its survivors still save"
    two, actions = look(one, job(states={"PENDING"}, nodes=frozenset(), restart_count=1), 6)
    assert (two.requeued_at, actions) == (at(6), ())
    assert "no action needed" in two.message
    running = job(restart_count=1, start_time=at(7), hosts=("host-b", "host-c"))
    three, _ = look(two, running, 8)
    assert (three.started_at, three.attempt_after, three.hosts_after) == (at(7), 1, ["host-b", "host-c"])
    stale, _ = look(three, job(restart_count=1, start_time=at(7), extra=extra(0, at(-50))), 9)
    assert stale.resumed_at is None, "attempt 0 had reported that"
    four, _ = look(stale, job(restart_count=1, start_time=at(7), extra=extra(1, at(9))), 10)
    assert (four.resumed_at, four.resumed_from_step, four.closed) == (at(9), 100, True)
    assert "resumed from step 100" in four.message
    assert "No action" not in four.message


def test_a_job_of_an_older_requeue_kind_gets_ahead_of_the_queue() -> None:
    _, actions = look(record(expedited=False), job(states={"PENDING"}, nodes=frozenset(), restart_count=1))
    assert actions == (JobAction.PRIORITISE,)
    seen = record(expedited=False, requeued_at=at(4))
    assert look(seen, job(states={"PENDING"}, nodes=frozenset(), restart_count=1))[1] == (), "once"


def test_a_crashed_job_is_requeued_by_us_once_and_asked_again_only_after_a_while() -> None:
    failed = job(states={"FAILED"}, exit_code=1, end_time=at(1))
    crashed = record(crashed_by_itself=True)
    one, actions = look(crashed, failed, 5)
    assert (actions, one.requeue_asked_at) == ((JobAction.REQUEUE,), at(5))
    assert look(one, failed, 6)[1] == ()
    assert look(one, failed, 11)[1] == (JobAction.REQUEUE,)


def test_a_crashed_job_that_slurm_holds_is_released_ahead_of_the_queue() -> None:
    held = job(states={"PENDING", "REQUEUE_HOLD"}, state_reason="JobHeldUser", nodes=frozenset(), restart_count=1)
    _, actions = look(record(crashed_by_itself=True), held)
    assert actions == (JobAction.RELEASE, JobAction.PRIORITISE)


HELD_BY_SLURM: dict[str, Any] = {
    "states": {"PENDING", "REQUEUE_HOLD"},
    "state_reason": "JobHeldUser",
    "nodes": frozenset[str](),
    "exit_code": 137,
}


def test_a_job_that_ended_between_the_list_and_the_strike_is_released_too() -> None:
    new, actions = look(record(), job(**HELD_BY_SLURM, restart_count=1))
    assert actions == (JobAction.RELEASE, JobAction.PRIORITISE)
    assert new.crashed_by_itself
    late, actions = look(record(), job(**HELD_BY_SLURM, restart_count=1), 500)
    assert actions == (), "long after the strike it is the job's own end"
    assert "held (JobHeldUser)" in late.message


@pytest.mark.parametrize(
    ("fields", "why"),
    [
        ({"requeued_at": at(3), "requeue_asked_at": at(2)}, "it is held (JobHeldUser)"),
        ({"attempt_before": -1}, "attempt 0 ended by itself with exit code 137"),
    ],
)
def test_a_job_that_is_back_and_held_again_is_left_to_its_user(fields: dict[str, Any], why: str) -> None:
    """Held by hand while it waits, or ended again by a bug of its own: releasing it for ever helps nobody."""
    new, actions = look(record(crashed_by_itself=True, **fields), job(**HELD_BY_SLURM, restart_count=1), 60)
    assert actions == ()
    assert why in new.message
    assert "`scontrol release 7` lets it start again" in new.message


def test_a_job_held_by_its_user_stays_held_and_says_so() -> None:
    held = job(states={"PENDING"}, state_reason="JobHeldUser", nodes=frozenset(), restart_count=1)
    new, actions = look(record(), held)
    assert actions == ()
    assert "held (JobHeldUser)" in new.message
    assert "no action needed" not in new.message


def test_a_job_that_fails_in_the_strike_is_requeued_and_one_that_fails_later_is_not() -> None:
    during = job(states={"FAILED"}, exit_code=1, end_time=at(20))
    assert look(record(), during, 21)[1] == (JobAction.REQUEUE,)
    later = job(states={"FAILED"}, exit_code=1, end_time=at(200))
    new, actions = look(record(), later, 201)
    assert (actions, new.closed) == ((), True)


def test_a_job_that_fails_in_the_second_strike_is_requeued_long_after_the_first() -> None:
    record = fenced()
    record.status.replacement.struck_again_at = at(600)
    failed = job(states={"FAILED"}, exit_code=1, end_time=at(602), restart_count=1)
    struck_once = JobRecord(job_id=7, attempt_before=1)
    assert JobAction.REQUEUE not in follow(record, struck_once, failed, at(603)).actions
    struck_twice = struck_once.model_copy(update={"strike": 2})
    assert follow(record, struck_twice, failed, at(603)).actions == (JobAction.REQUEUE,)


@pytest.mark.parametrize("flag", [set[str](), {"REQUEUE_HOLD"}])
def test_a_cancelled_job_needs_nothing(flag: set[str]) -> None:
    new, actions = look(record(), job(states={"CANCELLED", *flag}, end_time=at(4)))
    assert (new.closed, actions, new.not_requeued_reason) == (True, (), "")


def test_a_job_that_was_only_drained_around_runs_on_once_the_incident_is_called_off() -> None:
    incident = fenced(jobs=[record()])
    incident.status.fence = FenceKind.DRAIN
    assert not follow(incident, record(), job(), at(2)).record.closed
    incident.status.outcome = Outcome.CANCELLED
    followed = follow(incident, record(), job(), at(3))
    assert (followed.record.closed, followed.actions, followed.record.message) == (True, (), "")


def test_a_job_that_ends_again_is_followed_no_further() -> None:
    ended = job(states={"FAILED"}, restart_count=1, exit_code=1, start_time=at(7), end_time=at(9))
    new, actions = look(record(requeued_at=at(6)), ended, 10)
    assert (new.closed, actions) == (True, ())


def test_a_job_that_slurm_forgot_is_not_called_healthy() -> None:
    new, _ = look(record(), Gone())
    assert new.closed
    assert "no longer knows" in new.message


def test_on_older_slurm_the_controller_requeues() -> None:
    incident = fenced(jobs=[record()])
    incident.status.fence = FenceKind.REQUEUE
    followed = follow(incident, record(), job(), at(2))
    assert followed.actions == (JobAction.REQUEUE,)
    assert followed.intent.requeue_asked_at == at(2), "journalled before it is asked"


def test_a_job_that_is_back_already_is_not_requeued() -> None:
    """A part of a heterogeneous job comes back with the part that was requeued a moment before."""
    assert still_to_requeue(record(), job())
    assert not still_to_requeue(record(), job(states={"PENDING"}, restart_count=1))
    assert not still_to_requeue(record(), job(restart_count=1))


@pytest.mark.parametrize(
    "text",
    ["", "mine", "[]", "{}", '{"sparewheel": 1}', '{"sparewheel": {"attempt": "x"}}', '{"sparewheel": {"attempt": 1}}'],
)
def test_a_users_own_extra_is_no_report(text: str) -> None:
    assert read_progress(text) is None


def test_no_checkpoint_is_said_as_such() -> None:
    running = job(restart_count=1, start_time=at(7), extra=extra(1, at(9), resumed=None))
    new, _ = look(record(requeued_at=at(6)), running, 10)
    assert "at the beginning" in new.message
