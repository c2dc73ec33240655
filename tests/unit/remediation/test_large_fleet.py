"""What ten thousand nodes cost: nobody keeps the event loop for himself, and one node's look reads no other."""

from __future__ import annotations

import asyncio
from typing import NoReturn, TypeVar

import pytest

from sparewheel.api.remediation import Remediation
from sparewheel.kube.pace import URGENCY, Urgency
from sparewheel.kube.port import NODE, NODE_HEALTH
from sparewheel.remediation.controller.loop import Controller
from sparewheel.remediation.controller.queue import AT_ONCE, DueQueue, Key
from sparewheel.remediation.stages.incident import Incident
from sparewheel.remediation.stages.journal import Journal
from tests.support.clocks import LoopClock
from tests.support.incidents import claimed, fenced
from tests.support.world import World, until

T = TypeVar("T")


@pytest.mark.looptime
async def test_a_thousand_keys_leave_others_their_turns() -> None:
    """A new leader looks at every node; its lease has to be renewed meanwhile."""
    queue, handled, most = DueQueue(LoopClock()), 0, 0

    async def handle(_: Key) -> float | None:
        nonlocal handled
        handled += 1
        return None

    for number in range(1000):
        queue.add(Key("node", f"n-{number}"))
    running = asyncio.create_task(queue.run(handle))
    while handled < 1000:
        before = handled
        await asyncio.sleep(0)
        most = max(most, handled - before)
    assert most <= AT_ONCE
    running.cancel()
    await asyncio.wait({running})


class _Unread(dict[str, T]):
    def __iter__(self) -> NoReturn:
        raise AssertionError("all nodes were read")

    def items(self) -> NoReturn:
        raise AssertionError("all nodes were read")

    def values(self) -> NoReturn:
        raise AssertionError("all nodes were read")


@pytest.mark.looptime
async def test_the_look_at_a_silent_node_reads_no_other() -> None:
    """Ten thousand silent ones, as where the API server is slow, would else be a hundred million looks."""
    world = World()
    controller = world.controller()
    running = [asyncio.create_task(work) for work in (controller.watches.run(), world.run())]
    await until(lambda: "gpu-1" in controller.state.healths)
    running.pop().cancel()
    await asyncio.sleep(60)  # nobody reports
    controller.state.healths = _Unread(controller.state.healths)
    world.kube.calls.clear()
    URGENCY.set(Urgency.NORMAL)
    assert await controller.scout.probe("gpu-1") is not None
    assert [call.resource.plural for call in world.kube.calls if call.verb == "get"][:1] == [NODE_HEALTH.plural]
    assert URGENCY.get() is Urgency.FENCE, "the record of a lost node waits for nothing else"
    running[0].cancel()
    await asyncio.wait(running)


@pytest.mark.looptime
async def test_the_look_at_a_removed_node_reads_no_other() -> None:
    world = World()
    controller = world.controller()
    running = [asyncio.create_task(work) for work in (controller.watches.run(), world.run())]
    await until(lambda: "gpu-1" in controller.state.nodes and bool(controller.state.hosts))
    host = next(name for name, one in controller.state.hosts.items() if one.status.node_name == "gpu-1")
    world.kube.drop(NODE, "gpu-1")
    await until(lambda: "gpu-1" not in controller.state.nodes)
    assert controller.dispatch.removed.due() == []
    await asyncio.sleep(70)
    assert controller.dispatch.removed.due() == [host]
    controller.state.hosts = _Unread(controller.state.hosts)
    assert await controller.dispatch.removed.look(host) is not None, "it is not given up, although nobody leads"
    for task in running:
        task.cancel()
    await asyncio.wait(running)


def searches(controller: Controller, host: str) -> set[str]:
    """Incidents whose search for a spare is due now that the host changed."""
    controller.intake.wake_searches("gpu", host)
    return {key.name for key in controller.queue.keys if key.kind == "spare"}


def taken(controller: Controller, record: Remediation) -> None:
    controller.state.take(Incident(controller.ports, Journal(controller.kube, record)))


@pytest.mark.looptime
async def test_a_spares_step_wakes_its_own_incident_and_those_that_have_none() -> None:
    controller = World().controller()
    for name, spare in (("mine", "h1"), ("others", "h2"), ("none", None)):
        record = claimed(fenced(name))
        record.status.replacement.spare_host = spare
        taken(controller, record)
    assert searches(controller, "h1") == {"mine", "none"}


@pytest.mark.looptime
async def test_in_a_storm_the_searches_that_wait_are_not_all_woken_at_once() -> None:
    controller, looked = World().controller(), list[str]()
    for number in range(80):
        taken(controller, fenced(f"i-{number}"))

    async def look(key: Key) -> float | None:
        looked.append(key.name)
        return None

    searches(controller, "h1")
    running = asyncio.create_task(controller.queue.run(look))
    await asyncio.sleep(1)
    assert looked == []
    await asyncio.sleep(10)
    assert len(looked) == 80, "but they are woken"
    running.cancel()
    await asyncio.wait({running})
