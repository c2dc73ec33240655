"""The informer's copy follows the server, through lost watches and forgotten versions."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Mapping
from itertools import pairwise

import pytest

from sparewheel.kube.informer import Change, Informer
from sparewheel.kube.memory import MemoryKube
from sparewheel.kube.port import (
    CONFIG_MAP,
    GoneError,
    Keep,
    Listing,
    Resource,
    UnavailableError,
    WatchEvent,
    opened,
)
from tests.kube_contract import SPACE, config_map
from tests.support.clocks import LoopClock
from tests.support.world import until

pytestmark = pytest.mark.looptime


@pytest.fixture
def kube() -> MemoryKube:
    return MemoryKube(clock=LoopClock())


@pytest.fixture
async def informer(kube: MemoryKube) -> AsyncIterator[Informer]:
    kube.put(CONFIG_MAP, config_map("first"), SPACE)
    informer = Informer(kube, CONFIG_MAP, LoopClock())
    task = asyncio.create_task(informer.run())
    yield informer
    task.cancel()


def names(informer: Informer) -> set[str]:
    return {body["metadata"]["name"] for body in informer.objects()}


async def test_it_follows(kube: MemoryKube, informer: Informer) -> None:
    await informer.synced.wait()
    changes: list[Change] = []
    informer.add_listener(changes.append)
    await kube.create(CONFIG_MAP, config_map("second"), SPACE)
    await kube.merge_patch(CONFIG_MAP, "second", {"data": {"key": "two"}}, SPACE)
    await kube.delete(CONFIG_MAP, "first", SPACE)
    await asyncio.sleep(0.1)
    assert names(informer) == {"second"}
    assert [(change.key[1], change.old is None, change.new is None) for change in changes] == [
        ("second", True, False),
        ("second", False, False),
        ("first", False, True),
    ]


async def test_changes_during_a_forgotten_version_are_told(kube: MemoryKube, informer: Informer) -> None:
    await informer.synced.wait()
    await asyncio.sleep(0.1)
    changes: list[Change] = []
    informer.add_listener(changes.append)
    kube.put(CONFIG_MAP, config_map("second"), SPACE)
    kube.drop(CONFIG_MAP, "first", SPACE)
    kube.end_watches(expire=True)
    await asyncio.sleep(0.1)
    assert names(informer) == {"second"}
    assert {(change.key[1], change.new is None) for change in changes} == {("first", True), ("second", False)}


async def test_an_unreachable_server_is_an_error_until_it_answers_again(kube: MemoryKube, informer: Informer) -> None:
    await informer.synced.wait()
    await asyncio.sleep(0.1)
    kube.fail(UnavailableError("gone fishing"), "watch", times=5)
    kube.end_watches()
    await asyncio.sleep(12)
    assert informer.last_error == "gone fishing"
    kube.put(CONFIG_MAP, config_map("second"), SPACE)
    assert names(informer) == {"first"}
    await asyncio.sleep(11)
    assert names(informer) == {"first", "second"}
    assert informer.last_error == ""


async def test_a_watch_that_was_taken_up_is_no_error_however_quiet_its_kind(
    kube: MemoryKube, informer: Informer
) -> None:
    await informer.synced.wait()
    await asyncio.sleep(0.1)
    kube.fail(UnavailableError("gone fishing"), "watch")
    kube.end_watches()
    await asyncio.sleep(0.1)
    assert informer.last_error == "gone fishing"
    await asyncio.sleep(1)
    assert informer.last_error == ""
    assert names(informer) == {"first"}


class QuietKube(MemoryKube):
    """Nothing changes: each watch is taken up, lives for so many bookmarks, one a minute, and breaks."""

    bookmarks: tuple[int, ...] = ()
    spans: list[tuple[float, float]]
    """When each watch was taken up, and when it broke."""

    async def watch(
        self,
        resource: Resource,
        resource_version: str,
        namespace: str | None = None,
        label_selector: Mapping[str, str] | None = None,
    ) -> AsyncGenerator[WatchEvent, None]:
        time = asyncio.get_running_loop().time
        begun, number = time(), len(self.spans)
        yield opened(resource_version)
        for _ in range(self.bookmarks[number] if number < len(self.bookmarks) else 1_000_000):
            await asyncio.sleep(60)
            yield opened(resource_version)
        self.spans.append((begun, time()))
        raise UnavailableError("broken")


async def test_a_watch_that_lasted_begins_again_at_once_however_quiet_its_kind() -> None:
    kube = QuietKube(clock=LoopClock())
    kube.bookmarks, kube.spans = (0, 0, 0, 0, 0, 0, 2, 0), []
    running = asyncio.create_task(Informer(kube, CONFIG_MAP, LoopClock()).run())
    await asyncio.sleep(400)
    running.cancel()
    pauses = [round(begun - broke, 1) for (_, broke), (begun, _) in pairwise(kube.spans)]
    assert pauses == [0.5, 1.0, 2.0, 4.0, 8.0, 10.0, 0.5]


async def test_before_the_first_list_nothing_is_known(kube: MemoryKube) -> None:
    informer = Informer(kube, CONFIG_MAP, LoopClock())
    assert not informer.synced.is_set()
    assert list(informer.objects()) == []


async def test_only_what_is_kept_is_held(kube: MemoryKube) -> None:
    kube.put(CONFIG_MAP, config_map("first"), SPACE)
    informer = Informer(kube, CONFIG_MAP, LoopClock(), keep=lambda body: {"metadata": body["metadata"]})
    task = asyncio.create_task(informer.run())
    await informer.synced.wait()
    task.cancel()
    held = informer.get("first", SPACE)
    assert held is not None
    assert "data" not in held


async def test_listeners_hear_the_whole_of_what_is_not_held_whole(kube: MemoryKube) -> None:
    kube.put(CONFIG_MAP, config_map("first"), SPACE)
    informer = Informer(kube, CONFIG_MAP, LoopClock(), hold=lambda body: {"metadata": body["metadata"]})
    heard: list[Change] = []
    gone = asyncio.Event()

    def hear(change: Change) -> None:
        heard.append(change)
        if change.new is None:
            gone.set()

    informer.add_listener(hear)
    task = asyncio.create_task(informer.run())
    await informer.synced.wait()
    await kube.delete(CONFIG_MAP, "first", SPACE)
    await gone.wait()
    task.cancel()
    assert heard[0].new is not None
    assert heard[0].new["data"] == config_map("first")["data"]
    assert heard[1].old is not None
    assert "data" not in heard[1].old


async def test_a_long_list_leaves_others_their_turns(kube: MemoryKube) -> None:
    """A lease has to be renewed while ten thousand objects are taken in."""
    for number in range(1000):
        kube.put(CONFIG_MAP, config_map(f"c-{number}"), SPACE)
    informer, most, taken = Informer(kube, CONFIG_MAP, LoopClock()), 0, 0

    def count(_: Change) -> None:
        nonlocal taken
        taken += 1

    informer.add_listener(count)
    running = asyncio.create_task(informer.run())
    while not informer.synced.is_set():
        before = taken
        await asyncio.sleep(0)
        most = max(most, taken - before)
    assert taken == 1000
    assert most <= 100
    running.cancel()


class TornKube(MemoryKube):
    """The continue token of its second list grows too old after the first page."""

    lists = 0

    async def pages(
        self,
        resource: Resource,
        namespace: str | None = None,
        label_selector: Mapping[str, str] | None = None,
        keep: Keep | None = None,
    ) -> AsyncGenerator[Listing, None]:
        self.lists += 1
        async for page in MemoryKube.pages(self, resource, namespace, label_selector, keep):
            yield page
            if self.lists == 2:
                raise GoneError("410")


async def test_a_list_that_is_torn_proves_no_absence() -> None:
    kube = TornKube(clock=LoopClock())
    for number in range(150):
        kube.put(CONFIG_MAP, config_map(f"c-{number}"), SPACE)
    informer, gone = Informer(kube, CONFIG_MAP, LoopClock()), list[Change]()
    running = asyncio.create_task(informer.run())
    await informer.synced.wait()
    informer.add_listener(lambda change: gone.append(change) if change.new is None else None)
    kube.drop(CONFIG_MAP, "c-7", SPACE)
    kube.end_watches(expire=True)
    await until(lambda: kube.lists == 3 and informer.get("c-7", SPACE) is None)
    running.cancel()
    assert [change.key[1] for change in gone] == ["c-7"]


async def test_what_is_read_from_the_cache_is_the_readers_own(kube: MemoryKube) -> None:
    kube.put(CONFIG_MAP, config_map("first"), SPACE)
    informer = Informer(kube, CONFIG_MAP, LoopClock())
    task = asyncio.create_task(informer.run())
    await informer.synced.wait()
    task.cancel()
    for held in (informer.get("first", SPACE), *informer.objects()):
        assert held is not None
        held["data"].clear()
    again = informer.get("first", SPACE)
    assert again is not None
    assert again["data"] == config_map("first")["data"]
