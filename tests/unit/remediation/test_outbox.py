"""Messages are told once, also by a controller whose cache lags behind and by one whose write's answer was lost."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import pytest

from sparewheel.api.gpu_pool import SecretKeyRef
from sparewheel.api.remediation import JobRecord, NodeStage, Outcome, Remediation
from sparewheel.api.remediation_policy import RemediationPolicySpec
from sparewheel.api.routes import Audience, EmailRoute, PagerDutyRoute, Person, WebhookRoute
from sparewheel.kube.port import REMEDIATION, UnavailableError
from sparewheel.notify.port import Event, NotifyError
from sparewheel.remediation.decide.deliveries import LAPSE, delivered, enqueue, queued
from sparewheel.remediation.decide.events import EVENT_CLOSED, EVENT_DETECTED
from sparewheel.remediation.decide.fence_record import fence_decided
from sparewheel.remediation.decide.grouping import HOLD_ATTEMPTS
from sparewheel.remediation.decide.job_records import list_jobs
from sparewheel.remediation.decide.record import close, end
from sparewheel.remediation.stages import outbox
from sparewheel.remediation.stages.incident import Incident
from sparewheel.remediation.stages.journal import Journal
from tests.support.clocks import START
from tests.support.incidents import at, fenced, remediation
from tests.support.world import World

pytestmark = pytest.mark.looptime


def scene() -> tuple[World, Incident, Remediation]:
    """A message in the outbox, and the record as a cache has it."""
    world = World()
    record = fenced()
    now = world.clock.now()
    record.status = enqueue(record.metadata.name, EVENT_CLOSED, ["hook"], now)(record.status)
    seen = Remediation.from_wire(world.kube.put(REMEDIATION, record.to_wire()))
    ports = world.controller().ports
    ports.leading = lambda: True
    return world, Incident(ports, Journal(world.kube, seen)), seen


async def test_a_message_is_delivered() -> None:
    world, incident, _ = scene()
    assert await outbox.act(incident, "hook") is None
    assert len(world.receiver.tries) == 1


async def test_an_older_version_from_a_cache_sends_nothing_again() -> None:
    world, incident, seen = scene()
    key = seen.status.outbox[0].key
    await Journal(world.kube, seen).update(delivered(key, at(1)))
    assert await outbox.act(incident, "hook") is None
    assert world.receiver.tries == []


async def test_a_delivery_whose_journal_entry_lost_its_answer_is_not_sent_again() -> None:
    world, incident, _ = scene()
    await incident.update(fence_decided(incident.record.status.fence, at(0)))
    world.kube.fail(UnavailableError("no answer"), "replace", REMEDIATION, when="after")
    with pytest.raises(UnavailableError):
        await outbox.act(incident, "hook")
    assert await outbox.act(incident, "hook") is None
    assert len(world.receiver.tries) == 1


async def test_what_nobody_accepts_lapses_and_lets_go_of_the_incident() -> None:
    world, incident, record = scene()
    world.receiver.failing = 1
    assert await outbox.act(incident, "hook") is not None
    assert queued(incident.record)
    await world.clock.sleep(LAPSE.total_seconds() + 1)
    assert await outbox.act(incident, "hook") is None
    assert not queued(incident.record)
    (message,) = incident.record.status.outbox
    assert message.given_up_at == world.clock.now()
    assert "given up after a day: route hook: the receiver answered HTTP 503" in message.last_error
    assert len(record.status.outbox) == 1


async def test_the_later_messages_of_a_route_keep_their_turn_until_one_has_failed_too_often() -> None:
    world, incident, record = scene()
    await incident.update(enqueue(incident.name, "job.resumed/7", ["hook"], world.clock.now()))
    first, second = (f"{record.metadata.name}/{event}/hook" for event in (EVENT_CLOSED, "job.resumed/7"))
    world.receiver.refused = {first}
    for tries in range(1, HOLD_ATTEMPTS + 1):
        pause = await outbox.act(incident, "hook")
        assert world.receiver.tries.count(first) == tries
        assert world.receiver.tries.count(second) == (tries == HOLD_ATTEMPTS)
        assert pause is not None
        await world.clock.sleep(2.0**tries)
    assert world.receiver.of("job.resumed")


async def test_a_route_that_never_answers_has_failed_after_its_time() -> None:
    world, incident, _ = scene()
    world.receiver.hung = {"hook"}
    before = world.clock.monotonic_seconds()
    assert await outbox.act(incident, "hook") is not None
    assert world.clock.monotonic_seconds() - before == pytest.approx(outbox.ROUTE_SECONDS)
    assert "not through within 15 s" in incident.record.status.outbox[0].last_error


# -------------------------------------------------------------------- people and groups
def record_with(name: str, event: str, routes: list[str], jobs: list[JobRecord] | None = None) -> Remediation:
    record = fenced(name, jobs=jobs)
    record.spec.node = f"node-of-{name}"
    record.status = enqueue(name, event, routes, START)(record.status)
    return record


def taken(
    world: World, records: list[Remediation], policy: RemediationPolicySpec, known: Sequence[Incident] = ()
) -> list[Incident]:
    """The incidents in the hands of one leading controller; ``known``: others that it works on."""
    controller = world.controller()
    controller.ports.leading = lambda: True
    controller.state.policy_spec = policy
    for record in records:
        seen = Remediation.from_wire(world.kube.put(REMEDIATION, record.to_wire()))
        controller.state.take(Incident(controller.ports, Journal(world.kube, seen)))
    found = list(controller.state.taken.values())
    for incident in known:
        controller.state.take(incident)
    return found


async def pass_over(incidents: list[Incident]) -> None:
    """What the controller's queue does for every outbox."""
    for incident in incidents:
        routes, _ = await outbox.sort(incident)
        for route in routes:
            await outbox.act(incident, route)


HOOK = WebhookRoute(name="hook", url_ref=SecretKeyRef(name="routes", key="url"))
OWNERS = EmailRoute(name="owners", audience=Audience.OWNER, host="mail", from_address="w@example.com")


async def test_owners_hear_of_their_jobs_and_the_platform_of_those_who_have_no_address() -> None:
    world = World()
    jobs = [JobRecord(job_id=7, user="ada", stopping_at=at(1)), JobRecord(job_id=8, user="bob", stopping_at=at(1))]
    policy = RemediationPolicySpec(routes=[HOOK, OWNERS], people={"ada": Person(email="ada@example.com")})
    (incident,) = taken(world, [record_with("x", EVENT_DETECTED, ["owners"], jobs)], policy)
    await pass_over([incident])
    assert sorted(world.receiver.by_route) == ["hook", "owners"]
    (to_ada,), (to_platform,) = world.receiver.by_route["owners"], world.receiver.by_route["hook"]
    assert (to_ada["owner"], [job["jobId"] for job in to_ada["jobs"]]) == ("ada", [7])
    assert (to_platform["owner"], [job["jobId"] for job in to_platform["jobs"]]) == ("bob", [8])
    note = "User bob has no address on route owners, so route hook tells the platform."
    assert to_platform["note"] == note
    assert [one.note for one in incident.record.status.outbox] == ["", "", note], "said so in the record"
    await pass_over([incident])
    assert len(world.receiver.tries) == 2
    assert not queued(incident.record)


async def test_an_owner_is_told_once_the_jobs_are_known_however_long_that_takes() -> None:
    world = World()
    record = remediation("x")
    record.status = enqueue("x", EVENT_DETECTED, ["owners"], START)(record.status)
    policy = RemediationPolicySpec(routes=[OWNERS], people={"ada": Person(email="ada@example.com")})
    (incident,) = taken(world, [record], policy)
    await world.clock.sleep(600)
    assert await outbox.sort(incident) == (["owners"], 0.5)
    assert await outbox.act(incident, "owners") is None
    assert world.receiver.tries == []
    await incident.update(list_jobs([JobRecord(job_id=7, user="ada")], at(600)), end(NodeStage.FENCED, at(600)))
    await pass_over([incident])
    assert [event["owner"] for event in world.receiver.events.values()] == ["ada"]


async def test_two_hundred_faults_are_one_message_at_once_and_one_summary_that_names_the_rest() -> None:
    world = World()
    records = [record_with(f"i{number}", EVENT_DETECTED, ["hook"]) for number in range(200)]
    incidents = taken(world, records, RemediationPolicySpec(routes=[HOOK]))
    await pass_over(incidents)
    assert [event["count"] for event in world.receiver.events.values()] == [200], "all were there at once"
    more = [record_with(f"j{number}", EVENT_DETECTED, ["hook"]) for number in range(5)]
    late = taken(world, more, RemediationPolicySpec(routes=[HOOK]), incidents)
    await pass_over(late)
    assert len(world.receiver.events) == 1, "within the window"
    await world.clock.sleep(11)  # counted from the fence, which is a second after the world's beginning
    await pass_over([*late, *incidents])
    first, second = world.receiver.events.values()
    assert second["count"] == 5
    told = [one["remediation"] for event in (first, second) for one in event["incidents"]]
    assert len(told) == len(set(told)) == 105
    assert first["moreIncidents"] == 100
    assert not any(queued(incident.record) for incident in [*incidents, *late])


@dataclass
class DeadlyReceiver:
    """Accepts, and the answer to the next write of a record is lost."""

    world: World

    async def send(self, route_name: str, event: Event, key: str) -> None:
        await self.world.receiver.send(route_name, event, key)
        self.world.kube.fail(UnavailableError("no answer"), "replace", REMEDIATION)


async def test_another_controller_goes_on_with_the_group_that_was_decided() -> None:
    """The first one is killed when the receiver has the summary and the record doesn't know it."""
    world = World()
    policy = RemediationPolicySpec(routes=[HOOK])
    first = taken(world, [record_with(name, EVENT_DETECTED, ["hook"]) for name in "abc"], policy)
    first[0].ports.notifier = DeadlyReceiver(world)
    with pytest.raises(UnavailableError):
        await pass_over(first[:1])
    assert [event["count"] for event in world.receiver.events.values()] == [3]
    bodies = [world.kube.peek(REMEDIATION, name, "sparewheel") for name in "abc"]
    records = [Remediation.from_wire(body) for body in bodies if body is not None]
    second = taken(world, records, policy)
    await pass_over([second[2], second[1], second[0]])
    await pass_over(second)
    assert len(world.receiver.events) == 1, "the same key again, so a receiver has it once"
    assert len(world.receiver.tries) == 2
    assert not any(queued(incident.record) for incident in second)


async def test_a_refusal_for_good_gives_up_and_one_with_a_time_waits_for_it() -> None:
    world, incident, _ = scene()
    world.receiver.error = NotifyError("HTTP 429", retry_after_seconds=40)
    assert await outbox.act(incident, "hook") is not None
    await world.clock.sleep(39)
    await outbox.act(incident, "hook")
    assert len(world.receiver.tries) == 1
    world.receiver.error = NotifyError("HTTP 404", permanent=True)
    await world.clock.sleep(2)
    assert await outbox.act(incident, "hook") is None
    (message,) = incident.record.status.outbox
    assert (message.attempts, message.last_error) == (2, "HTTP 404")
    assert message.given_up_at is not None


async def test_a_pager_is_told_of_the_end_when_all_incidents_of_its_alert_have_ended() -> None:
    world = World()
    pager = PagerDutyRoute(name="pager", routing_key_ref=SecretKeyRef(name="routes", key="key"))
    policy = RemediationPolicySpec(routes=[pager])
    incidents = taken(world, [record_with(name, EVENT_DETECTED, ["pager"]) for name in "ab"], policy)
    await pass_over(incidents)
    for incident, pause in zip(incidents, (5.0, None), strict=True):
        closed = enqueue(incident.name, EVENT_CLOSED, ["pager"], world.clock.now())
        await incident.update(close(Outcome.HEALED, world.clock.now(), "well"), closed)
        await world.clock.sleep(60)
        assert await outbox.act(incident, "pager") == pause
    await pass_over(incidents)
    opened, ended = world.receiver.events.values()
    assert (opened["alert"], ended["alert"]) == ("a", "a")
    assert (ended["event"], ended["count"]) == (EVENT_CLOSED, 2)
