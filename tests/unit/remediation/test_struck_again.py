"""The journal of jobs that are struck a second time: their story begins anew, once."""

from __future__ import annotations

from sparewheel.api.remediation import JobRecord, RemediationStatus
from sparewheel.remediation.decide.deliveries import enqueue
from sparewheel.remediation.decide.events import job_event, job_of, strike_of
from sparewheel.remediation.decide.job_records import put_and_tell, put_job, struck_again
from sparewheel.remediation.decide.sentences import event_body
from tests.support.incidents import at, remediation


def back(job_id: int = 7, **fields: object) -> JobRecord:
    known = JobRecord(job_id=job_id, user="alice", attempt_before=0, attempt_after=1, stopping_at=at(1))
    again = {"requeued_at": at(2), "started_at": at(3), "resumed_at": at(9), "closed": True}
    return known.model_copy(update={**again, **fields})


FOUND = JobRecord(job_id=7, user="alice", attempt_before=1, hosts_before=["gpu-3"])


def test_a_job_that_was_back_begins_anew() -> None:
    status = struck_again([FOUND], at(20))(RemediationStatus(jobs=[back()]))
    (job,) = status.jobs
    assert (job.strike, job.attempt_before, job.stopping_at, job.closed) == (2, 1, at(20), False)
    assert (job.requeued_at, job.resumed_at, job.attempt_after, job.hosts_before) == (None, None, None, ["gpu-3"])
    assert struck_again([FOUND], at(25))(status) == status, "the same strike done again"


def test_a_stranger_that_found_room_on_the_spare_is_listed() -> None:
    stranger = JobRecord(job_id=9, user="bob")
    status = struck_again([FOUND, stranger], at(20))(RemediationStatus(jobs=[back(), back(8)]))
    told = [(job.job_id, job.strike, job.stopping_at) for job in status.jobs]
    assert told == [
        (7, 2, at(20)),
        (8, 1, at(1)),
        (9, 2, at(20)),
    ]
    assert status.jobs[1] == back(8), "it runs elsewhere"


def test_what_was_seen_before_the_second_strike_is_not_written_over_it() -> None:
    status = struck_again([FOUND], at(20))(RemediationStatus(jobs=[back(closed=False, resumed_at=None)]))
    assert put_job(back())(status) == status


def test_each_strike_is_told_once() -> None:
    assert job_event(7, 1) == "job.resumed/7"
    assert job_event(7, 2) == "job.resumed/7/2"
    assert {job_of(job_event(7, strike)) for strike in (1, 2)} == {"7"}
    assert job_of("incident.waiting/spare") == ""
    assert [strike_of(job_event(7, strike)) for strike in (1, 2, 3)] == [1, 2, 3]


def test_news_of_a_job_that_was_struck_again_meanwhile_is_no_news() -> None:
    told = put_and_tell(back(), enqueue("inc", job_event(7, 1), ["hook"], at(9)))
    assert [one.event for one in told(RemediationStatus(jobs=[back(closed=False)])).outbox] == ["job.resumed/7"]
    again = struck_again([FOUND], at(20))(RemediationStatus(jobs=[back()]))
    assert told(again) == again


def test_news_that_are_sent_after_the_second_strike_say_so() -> None:
    record = remediation()
    record.status = struck_again([FOUND], at(20))(RemediationStatus(jobs=[back()]))
    body = event_body(record, job_event(7, 1), at(21))
    assert body["title"] == "Job 7 of alice was struck again"
