"""Who is told what when many nodes fail at once, with a controller killed in the middle."""

from __future__ import annotations

import asyncio

from sparewheel.api.gpu_pool import SecretKeyRef
from sparewheel.api.remediation_policy import RemediationPolicySpec
from sparewheel.api.routes import Audience, EmailRoute, EventKind, Person, WebhookRoute
from sparewheel.remediation.decide.deliveries import queued
from sparewheel.remediation.decide.events import EVENT_BREAKER, EVENT_CLOSED, EVENT_DETECTED, EVENT_JOB
from tests.support.play import healed, playing, training
from tests.support.world import World, until

HOOK = WebhookRoute(name="hook", url_ref=SecretKeyRef(name="routes", key="url"))
ENDS = WebhookRoute(name="ends", url_ref=SecretKeyRef(name="routes", key="url"), events=[EventKind.CLOSED])
OWNERS = EmailRoute(name="owners", audience=Audience.OWNER, host="mail", from_address="w@example.com")


async def test_a_storm_is_a_few_messages_that_name_every_incident_though_a_controller_is_killed() -> None:
    world = World(replicas=12, spares=0)
    world.put_policy(RemediationPolicySpec(routes=[HOOK], max_fenced_nodes=4))
    async with playing(world):
        for number in range(12):
            world.break_gpu(f"gpu-{number + 1}")
        await until(lambda: len(world.receiver.of(EVENT_DETECTED)) == 1, 20)
        await asyncio.sleep(1)
    async with playing(world, world.controller("two")):
        await until(lambda: all(not queued(record) for record in world.records()) and len(world.records()) == 12)
        await asyncio.sleep(60)
    messages = world.receiver.of(EVENT_DETECTED)
    named = [one["remediation"] for message in messages for one in message["incidents"]]
    assert sorted(named) == sorted(record.metadata.name for record in world.records()), "each once"
    assert len(messages) <= 3
    assert sum(message["count"] for message in messages) == 12
    assert len(world.receiver.of(EVENT_BREAKER)) == 1
    assert all(one.delivered_at for record in world.records() for one in record.status.outbox)


async def test_a_filter_and_an_owner() -> None:
    world = World()
    people = {"alice": Person(email="alice@example.com")}
    world.put_policy(RemediationPolicySpec(routes=[ENDS, OWNERS], people=people))
    async with playing(world):
        await training(world, user="alice")
        world.break_gpu("gpu-1")
        await healed(world)
        await until(lambda: all(not queued(record) for record in world.records()))
        await asyncio.sleep(30)
    assert [event["event"] for event in world.receiver.by_route["ends"]] == [EVENT_CLOSED]
    owner = world.receiver.by_route["owners"]
    assert [event["event"] for event in owner] == [EVENT_DETECTED, EVENT_JOB]
    assert all(event["owner"] == "alice" for event in owner)
    assert owner[0]["title"] == "Job 7 (train) was hit by XID 79 on gpu-1, no action needed"
    assert world.record().status.jobs[0].resumed_at is not None, "and it was true"
