"""Messages are told once, also by a controller whose cache lags behind and by one whose write's answer was lost."""

from __future__ import annotations

from datetime import timedelta

import pytest

from sparewheel.api.remediation import Remediation
from sparewheel.kube.port import REMEDIATION, UnavailableError
from sparewheel.remediation.decide.events import EVENT_CLOSED
from sparewheel.remediation.decide.record import delivered, enqueue, fence_decided
from sparewheel.remediation.stages import outbox
from sparewheel.remediation.stages.incident import Incident
from sparewheel.remediation.stages.journal import Journal
from tests.support.incidents import at, fenced
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
    await incident.update(fence_decided(incident.record.status.fence))
    world.kube.fail(UnavailableError("no answer"), "replace", REMEDIATION, when="after")
    with pytest.raises(UnavailableError):
        await outbox.act(incident, "hook")
    assert await outbox.act(incident, "hook") is None
    assert len(world.receiver.tries) == 1


async def test_what_nobody_accepts_lapses_and_lets_go_of_the_incident() -> None:
    world, incident, record = scene()
    world.receiver.failing = 1
    end = world.clock.now() + timedelta(hours=outbox.LAPSE_HOURS, seconds=1)
    assert await outbox.act(incident, "hook") is not None
    assert outbox.undelivered(incident.record, world.clock.now())
    assert not outbox.undelivered(incident.record, end)
    assert len(incident.record.status.outbox) == len(record.status.outbox) == 1


async def test_the_later_messages_of_a_route_keep_their_turn_until_one_has_failed_too_often() -> None:
    world, incident, record = scene()
    await incident.update(enqueue(incident.name, "job.resumed/7", ["hook"], world.clock.now()))
    first, second = (f"{record.metadata.name}/{event}/hook" for event in (EVENT_CLOSED, "job.resumed/7"))
    world.receiver.refused = {first}
    for tries in range(1, outbox.HOLD_ATTEMPTS + 1):
        pause = await outbox.act(incident, "hook")
        assert world.receiver.tries.count(first) == tries
        assert world.receiver.tries.count(second) == (tries == outbox.HOLD_ATTEMPTS)
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
