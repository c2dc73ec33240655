"""The journal: stages never go back, times are set once, messages are told once; and the words."""

from __future__ import annotations

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from sparewheel.api.faults import Fault
from sparewheel.api.remediation import FenceKind, JobRecord, NodeStage, Outcome, RemediationStatus, Trigger
from sparewheel.remediation.decide import deliveries as post
from sparewheel.remediation.decide import fence_record, job_records
from sparewheel.remediation.decide import record as journal
from sparewheel.remediation.decide.sentences import (
    cordon_reason,
    durations,
    event_body,
    job_sentence,
    needs_action,
    with_comment,
)
from tests.support.incidents import at, fault, fenced, remediation, stage

NODE_STAGES = list(NodeStage)
KEYS = st.sampled_from(["r/a/hook", "r/b/chat", "r/a/hook/ada"])
changes = st.one_of(
    st.builds(journal.begin, st.sampled_from(NODE_STAGES), st.integers(0, 500).map(at)),
    st.builds(journal.begin_once, st.sampled_from(NODE_STAGES), st.integers(0, 500).map(at)),
    st.builds(journal.end, st.sampled_from(NODE_STAGES), st.integers(0, 500).map(at)),
    st.builds(post.enqueue, st.just("r"), st.sampled_from(["a", "b"]), st.just(["hook", "chat"]), st.just(at(1))),
    st.builds(post.address, KEYS, st.just([post.Recipient("ada", "chat")]), st.just(at(3))),
    st.builds(post.decided, KEYS, st.sampled_from([[], ["other/a/hook"]]), st.integers(0, 500).map(at)),
    st.builds(post.delivered, KEYS, st.integers(0, 500).map(at)),
    st.builds(post.delivery_failed, KEYS, st.just(at(2)), st.just("503"), permanent=st.booleans()),
    st.builds(post.give_up, KEYS, st.just(at(9)), st.just("a day")),
    st.builds(fence_record.fence_decided, st.sampled_from(list(FenceKind))),
    st.builds(journal.close, st.sampled_from([Outcome.HEALED, Outcome.CANCELLED]), st.just(at(600)), st.just("end")),
)


def test_a_stage_that_was_under_way_when_the_incident_was_called_off_is_not_shown_as_done() -> None:
    status = RemediationStatus(
        stages=[stage(NodeStage.FENCED, 0, 1), stage(NodeStage.DRAINED, 1), stage(NodeStage.CLOSED, 9)]
    )
    for outcome, words in ((Outcome.CANCELLED, "called off before it was done"), (Outcome.HEALED, "")):
        closed = journal.close(outcome, at(9), "end")(status)
        assert [one.message for one in closed.stages] == ["", words, ""]
        assert [one.ended_at for one in closed.stages] == [at(1), at(9), at(9)]


@given(st.lists(changes, max_size=25))
def test_the_journal_is_monotone(steps: list[journal.Change]) -> None:
    status = RemediationStatus()
    for change in steps:
        before, status = status, change(status)
        starts = {one.name: one.started_at for one in status.stages}
        ends = {one.name: one.ended_at for one in status.stages}
        for old in before.stages:
            assert starts[old.name] == old.started_at, "a start stays"
            assert old.ended_at is None or ends[old.name] == old.ended_at, "an end stays"
        assert len(starts) == len(status.stages), "one line a stage"
        keys = [delivery.key for delivery in status.outbox]
        assert len(keys) == len(set(keys)), "one message a key"
        for old in before.outbox:
            new = next(delivery for delivery in status.outbox if delivery.key == old.key)
            assert post.state(old) is post.DeliveryState.QUEUED or new == old, "an end is an end"
            assert old.decided_at is None or (new.decided_at, new.folds) == (old.decided_at, old.folds), "once"
        if before.outcome is not Outcome.OPEN:
            assert status.outcome is before.outcome, "an end is an end"
        if before.fence is not FenceKind.UNDECIDED:
            assert status.fence is before.fence, "chosen once"


@given(st.lists(changes, max_size=10))
def test_changes_leave_what_they_were_given_alone(steps: list[journal.Change]) -> None:
    status = RemediationStatus()
    for change in steps:
        image = status.model_copy(deep=True)
        new = change(status)
        assert status == image
        status = new


def test_what_is_known_about_a_job_stays() -> None:
    first = JobRecord(job_id=7, requeued_at=at(5))
    status = job_records.list_jobs([first], at(1))(RemediationStatus())
    status = job_records.list_jobs([JobRecord(job_id=7), JobRecord(job_id=8)], at(2))(status)
    assert [job.requeued_at for job in status.jobs] == [at(5), None]
    assert status.jobs_listed_at == at(1)
    status = job_records.put_job(JobRecord(job_id=7, requeued_at=at(9), closed=True))(status)
    assert status.jobs[0].requeued_at == at(5)
    assert job_records.put_job(JobRecord(job_id=7, message="later"))(status).jobs[0].message == "", "closed is closed"


def test_a_strike_done_again_before_the_fence_is_done_gives_the_whole_grace_again() -> None:
    status = fence_record.own_slurm("gpu-0", at(1), at(-5), "")(RemediationStatus())
    status = fence_record.own_slurm("gpu-0", at(30), at(20), "x")(status)
    assert (status.owned.slurm_struck_at, status.owned.slurmd_started_before) == (at(30), at(-5))
    status = journal.end(NodeStage.FENCED, at(31))(status)
    assert fence_record.own_slurm("gpu-0", at(60), None, "")(status).owned.slurm_struck_at == at(30)


def test_a_veto_that_comes_back_goes_on_in_one_line() -> None:
    status = journal.end(NodeStage.VETOED, at(5))(journal.reopen_veto(at(1))(RemediationStatus()))
    status = journal.reopen_veto(at(9))(status)
    (record,) = status.stages
    assert (record.started_at, record.ended_at, record.attempts) == (at(1), None, 2)


def test_a_storm_of_faults_does_not_fill_the_record() -> None:
    status = RemediationStatus()
    for index in range(500):
        status = journal.fold(fault(device=f"0000:{index:04x}:00"))(status)
    assert len(status.more_faults) == journal.MAX_FOLDED_FAULTS


# -------------------------------------------------------------------- words
def done_job(**fields: Any) -> JobRecord:
    return JobRecord.model_validate({"job_id": 7, "user": "ada", "job_name": "train", "stopping_at": at(1), **fields})


def test_the_sentence_names_cause_blame_and_what_was_lost() -> None:
    text = job_sentence(
        fenced(), done_job(attempt_after=1, resumed_at=at(30), resumed_from_step=120, hosts_after=["a", "b"])
    )
    assert "XID 79 on GPU 3" in text
    assert "platform's fault" in text
    assert "resumed from step 120, so only work after that step was done again" in text
    assert text.count(".") <= 3


def test_no_action_needed_only_where_it_is_true() -> None:
    good = done_job(requeued_at=at(5))
    bad = done_job(not_requeued_reason="it was submitted with --no-requeue")
    assert "no action needed" in job_sentence(fenced(), good)
    assert "no action needed" not in job_sentence(fenced(), bad)
    assert (needs_action(good), needs_action(bad)) == (False, True)


def test_a_replacement_asked_for_by_a_person_blames_nobody() -> None:
    record = remediation(trigger=Trigger.MANUAL, requested_by="kim: fan noise")
    text = job_sentence(record, done_job())
    assert "taken out for replacement by kim: fan noise" in text
    assert "fault" not in text


def test_the_users_own_comment_stays() -> None:
    once = with_comment("run 12 of the sweep", "Attempt 0 ended.")
    assert once == "run 12 of the sweep | sparewheel: Attempt 0 ended."
    assert with_comment(once, "Attempt 1 resumed.") == "run 12 of the sweep | sparewheel: Attempt 1 resumed."
    assert with_comment("", "x") == "sparewheel: x"
    assert with_comment("sparewheel: x", "y") == "sparewheel: y"


def test_the_message_says_per_job_what_happens() -> None:
    record = fenced(jobs=[done_job(requeued_at=at(3)), done_job(job_id=8, not_requeued_reason="it was srun")])
    event = event_body(record, "incident.detected", at(2))
    assert [(job["jobId"], job["actionNeeded"]) for job in event["jobs"]] == [(7, False), (8, True)]
    assert event["actionNeeded"] is True
    assert event["severity"] == "critical"
    assert "being replaced from spare capacity" in event["text"]


def test_a_drill_and_a_dry_run_are_marked() -> None:
    drill = event_body(remediation(fault=fault(drill=True)), "incident.detected", at(2))
    assert drill["title"].startswith("Drill: ")
    dry = event_body(remediation(dry_run=True), "incident.closed", at(2))
    assert dry["title"].startswith("Dry run: ")


def test_an_open_breaker_is_told_as_it_is() -> None:
    record = fenced()
    record.status.fence = FenceKind.DRAIN
    text = event_body(record, "incident.detected", at(2))["text"]
    assert "only drained" in text
    assert "being replaced" not in text


def test_durations_count_from_the_fault() -> None:
    record = remediation(stages=[stage(NodeStage.DETECTED, 0, 0.4), stage(NodeStage.FENCED, 0.4)])
    assert durations(record) == {"detected": 0.4}


def test_the_cordon_reason_fits_slinky() -> None:
    long: Fault = fault(message="x" * 900)
    assert len(cordon_reason(remediation(fault=long))) <= 256
