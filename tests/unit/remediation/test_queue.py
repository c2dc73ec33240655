"""The queue of what is due: order, one key at a time, an end whenever it is cancelled."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from itertools import pairwise

import pytest

from sparewheel.remediation.controller.queue import SHORTEST_SECONDS, DueQueue, Key
from tests.support.clocks import LoopClock


@pytest.mark.looptime
async def test_the_earliest_due_comes_first_and_a_key_never_twice_at_once() -> None:
    queue, order, inside = DueQueue(LoopClock()), list[str](), set[Key]()

    async def handle(key: Key) -> float | None:
        assert key not in inside
        inside.add(key)
        await asyncio.sleep(1)
        order.append(key.name)
        inside.discard(key)
        return None

    queue.add(Key("k", "late"), 5)
    queue.add(Key("k", "soon"), 1)
    queue.add(Key("k", "soon"), 9)
    running = asyncio.create_task(queue.run(handle))
    await asyncio.sleep(1.5)
    queue.add(Key("k", "soon"))  # while it is handled: once more, afterwards
    await asyncio.sleep(20)
    assert order == ["soon", "soon", "late"]
    assert queue.keys == set()
    running.cancel()
    with suppress(asyncio.CancelledError):
        await running


@pytest.mark.looptime
async def test_keys_are_handled_side_by_side_and_ended_with_the_queue() -> None:
    queue, ended = DueQueue(LoopClock()), list[str]()

    async def handle(key: Key) -> float | None:
        try:
            await asyncio.sleep(100)
        finally:
            ended.append(key.name)
        return None

    for name in ("a", "b"):
        queue.add(Key("k", name))
    running = asyncio.create_task(queue.run(handle))
    await asyncio.sleep(1)
    assert {key.name for key in queue.running} == {"a", "b"}
    running.cancel()
    with suppress(asyncio.CancelledError):
        await running
    assert sorted(ended) == ["a", "b"]


@pytest.mark.looptime
async def test_a_handlers_answer_says_when_to_look_again() -> None:
    queue, seen = DueQueue(LoopClock()), list[float]()

    async def handle(key: Key) -> float | None:
        seen.append(asyncio.get_running_loop().time())
        return 3.0 if len(seen) < 3 else None

    queue.add(Key("k", "a"))
    running = asyncio.create_task(queue.run(handle))
    await asyncio.sleep(30)
    assert [round(later - seen[0]) for later in seen] == [0, 3, 6]
    running.cancel()
    with suppress(asyncio.CancelledError):
        await running


@pytest.mark.looptime(start=3000.0)
@pytest.mark.parametrize("rest", [1e-15, 1e-6, 0.0005, 0.002])
async def test_a_pause_too_short_for_the_clock_lets_time_pass_all_the_same(rest: float) -> None:
    queue, seen = DueQueue(LoopClock()), list[float]()

    async def handle(key: Key) -> float | None:
        seen.append(asyncio.get_running_loop().time())
        return rest if len(seen) < 20 else None

    queue.add(Key("k", "a"))
    running = asyncio.create_task(queue.run(handle))
    await asyncio.sleep(1)
    assert len(seen) == 20
    assert all(later - sooner >= SHORTEST_SECONDS - 1e-6 for sooner, later in pairwise(seen))
    running.cancel()
    with suppress(asyncio.CancelledError):
        await running


@pytest.mark.looptime
@pytest.mark.parametrize("turns", range(8))
async def test_a_queue_ends_whenever_it_is_cancelled(turns: int) -> None:
    """A process that stood still finds its lease lost and a key due in one and the same turn of the loop."""
    queue = DueQueue(LoopClock())

    async def handle(key: Key) -> float | None:
        return 1.0

    queue.add(Key("k", "a"))
    running = asyncio.create_task(queue.run(handle))
    await asyncio.sleep(5.5)
    queue.add(Key("k", "b"))
    for _ in range(turns):
        await asyncio.sleep(0)
    running.cancel()
    await asyncio.wait({running}, timeout=10)
    assert running.cancelled()
