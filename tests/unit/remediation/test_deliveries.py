"""The outbox's changes, and which route and whom a message goes to."""

from __future__ import annotations

import pytest

from sparewheel.api.enums import Severity
from sparewheel.api.gpu_pool import SecretKeyRef
from sparewheel.api.remediation import JobRecord, Outcome, RemediationStatus
from sparewheel.api.remediation_policy import RemediationPolicySpec
from sparewheel.api.routes import Audience, EmailRoute, EventKind, PagerDutyRoute, Person, SlackRoute, WebhookRoute
from sparewheel.remediation.decide import deliveries as post
from sparewheel.remediation.decide import routing
from sparewheel.remediation.decide.events import EVENT_BREAKER, EVENT_CLOSED, EVENT_JOB, kind_of, severity_of
from tests.support.incidents import at, fenced

REF = SecretKeyRef(name="routes", key="k")
HOOK = WebhookRoute(name="hook", url_ref=REF)
OWNERS = EmailRoute(name="owners", audience=Audience.OWNER, host="mail", from_address="w@example.com")


def queued() -> RemediationStatus:
    return post.enqueue("r", "a", ["hook"], at(0))(RemediationStatus())


# -------------------------------------------------------------------- tries
def test_retries_come_later_and_later() -> None:
    status, pauses = queued(), list[float]()
    for _ in range(11):
        status = post.delivery_failed("r/a/hook", at(0), "503")(status)
        pauses.append((status.outbox[0].due_at - at(0)).total_seconds())
    assert pauses[:4] == [1, 2, 4, 8]
    assert pauses[-1] == 300


def test_jitter_takes_up_to_half_and_a_receiver_that_asks_for_more_time_gets_it() -> None:
    def pause(jitter: float, retry_after_seconds: float | None = None) -> float:
        failed = post.delivery_failed("r/a/hook", at(0), "429", jitter=jitter, retry_after_seconds=retry_after_seconds)(
            queued()
        )
        return (failed.outbox[0].due_at - at(0)).total_seconds()

    assert (pause(0), pause(1), pause(0.5)) == (1, 0.5, 0.75)
    assert pause(1, 37) == 37


def test_a_refusal_for_good_is_not_tried_again_and_stands_in_the_record() -> None:
    status = post.delivery_failed("r/a/hook", at(3), "HTTP 404", permanent=True)(queued())
    record = fenced()
    record.status = status
    assert post.queued(record) == []
    (message,) = post.troubled(record)
    assert (post.state(message), message.last_error) == (post.DeliveryState.UNDELIVERED, "HTTP 404")
    assert post.delivered("r/a/hook", at(9))(status) == status, "given up is given up"


def test_what_was_carried_shares_the_fate_of_its_carrier() -> None:
    carrier = post.delivered("r/a/hook", at(7))(queued()).outbox[0]
    other = post.told_by("q/a/hook", carrier)(post.enqueue("q", "a", ["hook"], at(1))(RemediationStatus()))
    assert (other.outbox[0].delivered_at, other.outbox[0].folded_into) == (at(7), "r/a/hook")
    lost = post.delivery_failed("r/a/hook", at(7), "HTTP 400", permanent=True)(queued()).outbox[0]
    other = post.told_by("q/a/hook", lost)(post.enqueue("q", "a", ["hook"], at(1))(RemediationStatus()))
    assert (other.outbox[0].given_up_at, other.outbox[0].last_error) == (at(7), "HTTP 400")


# -------------------------------------------------------------------- people
def test_each_owner_gets_a_message_and_the_event_is_queued_once() -> None:
    found = [post.Recipient("ada", "hook"), post.Recipient("bob", "oncall", "User bob has no address.")]
    status = post.address("r/a/hook", found, at(2))(queued())
    whole, ada, bob = status.outbox
    assert post.state(whole) is post.DeliveryState.ADDRESSED
    assert (ada.key, ada.route, ada.recipient, ada.note) == ("r/a/hook/ada", "hook", "ada", "")
    assert (bob.route, bob.recipient, bob.note) == ("oncall", "bob", "User bob has no address.")
    assert post.address("r/a/hook", found, at(3))(status) == status
    assert post.enqueue("r", "a", ["hook"], at(3))(status) == status


def test_an_owner_whom_nobody_can_tell_is_shown_as_undelivered() -> None:
    status = post.address("r/a/hook", [post.Recipient("bob", "", "User bob has no address.")], at(2))(queued())
    assert post.state(status.outbox[1]) is post.DeliveryState.UNDELIVERED
    assert status.outbox[1].last_error == "User bob has no address."


def test_owners_are_the_users_of_the_jobs_with_the_platform_for_those_without_an_address() -> None:
    policy = RemediationPolicySpec(routes=[OWNERS, HOOK], people={"ada": Person(email="ada@example.com")})
    record = fenced(jobs=[JobRecord(job_id=job, user=user) for job, user in ((7, "ada"), (8, "bob"), (9, "ada"))])
    ada, bob = routing.recipients(policy, OWNERS, record, "incident.detected")
    assert ada == post.Recipient("ada", "owners")
    assert (bob.user, bob.route) == ("bob", "hook")
    assert "bob has no address on route owners, so route hook tells the platform" in bob.note
    assert [one.user for one in routing.recipients(policy, OWNERS, record, f"{EVENT_JOB}/8")] == ["bob"]
    alone = RemediationPolicySpec(routes=[OWNERS])
    assert [one.route for one in routing.recipients(alone, OWNERS, record, f"{EVENT_JOB}/8")] == [""]


@pytest.mark.parametrize("user", ["", "bob@evil", "a b", "a,b", "x" * 80, "\nbob"])
def test_a_name_that_is_none_becomes_no_address(user: str) -> None:
    pattern = OWNERS.model_copy(update={"owner_address": "{user}@example.com"})
    assert routing.address(pattern, {}, user) == ""


def test_where_each_kind_reaches_a_user() -> None:
    people = {"ada": Person(email="a@example.org", slack="U1234")}
    pattern = OWNERS.model_copy(update={"owner_address": "{user}@example.com"})
    assert routing.address(pattern, people, "ada") == "a@example.org"
    assert routing.address(pattern, people, "bob") == "bob@example.com"
    assert routing.address(SlackRoute(name="s", url_ref=REF), people, "ada") == "U1234"
    assert routing.address(SlackRoute(name="s", url_ref=REF), people, "bob") == ""
    assert routing.address(HOOK, people, "bob") == "bob"
    assert routing.address(PagerDutyRoute(name="p", routing_key_ref=REF), people, "ada") == ""


# -------------------------------------------------------------------- filters
def test_filters_let_through_what_they_name() -> None:
    def told(**fields: object) -> list[EventKind]:
        route = HOOK.model_copy(update=fields)
        return [kind for kind in EventKind if routing.passes(route, kind, severity_of(kind), "gpu")]

    assert told() == list(EventKind)
    assert told(events=[EventKind.FAILED]) == [EventKind.FAILED]
    assert told(severities=[Severity.CRITICAL]) == [EventKind.DETECTED, EventKind.FAILED, EventKind.BREAKER]
    assert told(pools=["other"]) == []
    assert told(pools=["other", "gpu"]) == list(EventKind)
    assert told(audience=Audience.OWNER) == [EventKind.DETECTED, EventKind.JOB]
    assert told(audience=Audience.OWNER, events=[EventKind.CLOSED]) == [EventKind.CLOSED]


def test_an_end_is_told_as_what_it_is_and_a_job_that_needs_somebody_is_a_warning() -> None:
    kinds = {outcome: kind_of(EVENT_CLOSED, outcome) for outcome in Outcome if outcome is not Outcome.OPEN}
    assert kinds.pop(Outcome.CANCELLED) is EventKind.CANCELLED
    assert kinds.pop(Outcome.FAILED) is EventKind.FAILED
    assert set(kinds.values()) == {EventKind.CLOSED}
    assert kind_of(EVENT_BREAKER, Outcome.OPEN) is EventKind.BREAKER
    assert severity_of(EventKind.JOB, action_needed=True) is Severity.WARNING
    assert severity_of(EventKind.JOB) is Severity.INFO
