"""What ten thousand nodes cost: nobody keeps the event loop for himself, and one node's look reads no other."""

from __future__ import annotations

import asyncio
from typing import NoReturn

import pytest

from sparewheel.api.node_health import NodeHealth
from sparewheel.kube.port import NODE_HEALTH
from sparewheel.remediation.controller.queue import AT_ONCE, DueQueue, Key
from tests.support.clocks import LoopClock
from tests.support.world import World, until


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


class _Unread(dict[str, NodeHealth]):
    def __iter__(self) -> NoReturn:
        raise AssertionError("all nodes were read")

    def items(self) -> NoReturn:
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
    assert await controller.scout.probe("gpu-1") is not None
    assert [call.resource.plural for call in world.kube.calls if call.verb == "get"][:1] == [NODE_HEALTH.plural]
    running[0].cancel()
    await asyncio.wait(running)
