"""What a message says: to the owner of a job, of one incident, of many; "no action needed" only where it is true."""

from __future__ import annotations

from sparewheel.api.remediation import FenceKind, JobRecord, Outcome, Remediation
from sparewheel.remediation.decide import deliveries as post
from sparewheel.remediation.decide.events import EVENT_CLOSED, EVENT_DETECTED, EVENT_JOB
from sparewheel.remediation.decide.messages import MAX_JOBS, MAX_NAMED, Told, message
from tests.support.incidents import at, fenced


def told(record: Remediation, event: str = EVENT_DETECTED, user: str = "", note: str = "") -> Told:
    name = record.metadata.name
    status = post.enqueue(name, event, ["hook"], at(1))(record.status)
    if user:
        status = post.address(status.outbox[-1].key, [post.Recipient(user, "hook", note)], at(1))(status)
    record.status = status
    return Told(record, status.outbox[-1])


def job(job_id: int, user: str = "ada", **fields: object) -> JobRecord:
    values = {"job_id": job_id, "user": user, "job_name": "train", "stopping_at": at(1), **fields}
    return JobRecord.model_validate(values)


def test_an_owner_hears_of_their_own_jobs_and_of_nobody_elses() -> None:
    record = fenced(jobs=[job(7), job(8, "bob")])
    body = message([told(record, user="ada")], "alert")
    assert body["owner"] == "ada"
    assert [one["jobId"] for one in body["jobs"]] == [7]
    assert body["title"] == "Job 7 (train) was hit by XID 79 on gpu-7, no action needed"
    assert "Job 7: Attempt 0 ended" in body["text"]
    assert "starts again by itself; no action needed" in body["text"]
    assert "bob" not in str(body)


def test_no_action_needed_is_said_only_where_it_is_true() -> None:
    lost = job(7, batch=False, not_requeued_reason="it was started by srun")
    body = message([told(fenced(jobs=[lost, job(9)]), user="ada")], "alert")
    assert body["title"] == "2 of your jobs were hit by XID 79 on gpu-7, action needed"
    assert body["actionNeeded"] is True
    assert body["text"].count("no action needed") == 1, "for job 9 alone"
    assert "Submit it again" in body["text"]


def test_a_job_that_the_breaker_spared_runs_on_and_somebody_should_look() -> None:
    record = fenced(jobs=[job(7, stopping_at=None)])
    record.status.fence = FenceKind.DRAIN
    body = message([told(record, user="ada")], "alert")
    assert "It runs on, although node gpu-7 failed" in body["text"]
    assert body["actionNeeded"] is True
    assert "no action needed" not in body["title"] + body["text"]


def test_the_platform_hears_why_it_gets_an_owners_message() -> None:
    body = message([told(fenced(), user="ada", note="User ada has no address.")], "alert")
    assert body["note"] == "User ada has no address."


def test_one_message_is_the_incident_itself() -> None:
    body = message([told(fenced("one"))], "one")
    assert (body["count"], body["moreIncidents"], body["alert"]) == (1, 0, "one")
    assert body["title"] == "XID 79 on gpu-7"
    assert [one["remediation"] for one in body["incidents"]] == ["one"]


def test_two_hundred_are_counted_named_up_to_the_cap_and_the_rest_is_a_number() -> None:
    everything = [told(fenced(f"incident-{index}", jobs=[job(index)])) for index in range(200)]
    body = message(everything, "incident-0", unread=3)
    assert body["count"] == 203
    assert body["title"] == "200 x XID 79 on gpu-7 and 200 more"
    assert [one["remediation"] for one in body["incidents"]] == [f"incident-{index}" for index in range(MAX_NAMED)]
    assert body["moreIncidents"] == 103
    assert all(f"incident-{index}," in body["text"] for index in range(MAX_NAMED - 1))
    assert f"incident-{MAX_NAMED}" not in body["text"]
    assert "and 103 more" in body["text"]
    assert "None of them needs anybody to act" in body["text"]
    assert (len(body["jobs"]), body["severity"]) == (200, "critical")


def test_a_job_hit_on_many_nodes_is_told_once_and_many_jobs_are_capped() -> None:
    body = message([told(fenced(f"i{index}", jobs=[job(7)])) for index in range(30)], "i0")
    assert len(body["jobs"]) == 1
    many = message([told(fenced(f"i{index}", jobs=[job(index)])) for index in range(MAX_JOBS + 5)], "i0")
    assert (len(many["jobs"]), many["moreJobs"]) == (MAX_JOBS, 5)


def test_a_summary_is_as_grave_as_its_gravest_part() -> None:
    healed, failed = fenced("a"), fenced("b")
    healed.status.outcome, failed.status.outcome = Outcome.HEALED, Outcome.FAILED
    body = message([told(healed, EVENT_CLOSED), told(failed, EVENT_CLOSED)], "a")
    assert body["severity"] == "critical"
    assert body["title"] == "2 incidents ended: 1 x healed, 1 x failed"
    assert "1 of them need somebody to act" in body["text"]


def test_news_of_jobs_names_them() -> None:
    records = [fenced(f"i{number}", jobs=[job(number, resumed_at=at(9))]) for number in (7, 8)]
    body = message([told(record, f"{EVENT_JOB}/{record.status.jobs[0].job_id}") for record in records], "i7")
    assert body["title"] == "News of 2 jobs: 7, 8"
    assert body["actionNeeded"] is False
