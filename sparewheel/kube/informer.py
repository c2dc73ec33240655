"""A local copy of one kind, kept fresh by list and watch; tells listeners what changed."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Final

import msgspec

from sparewheel.clock import Clock
from sparewheel.kube.answers import read_object
from sparewheel.kube.port import GoneError, Json, Keep, Key, Kube, KubeError, Resource

FIRST_RETRY_SECONDS: Final = 0.5
LAST_RETRY_SECONDS: Final = 10.0


@dataclass(frozen=True, slots=True)
class Change:
    """One object appeared (``old`` None), changed, or went (``new`` None)."""

    key: Key
    old: Json | None
    new: Json | None


Listener = Callable[[Change], None]


@dataclass(slots=True)
class Informer:
    """Run ``run()`` as a task; read when ``synced`` is set; doubt what you read while ``last_error`` says something."""

    kube: Kube
    resource: Resource
    clock: Clock
    namespace: str | None = None
    keep: Keep | None = None
    """What isn't used isn't held in memory."""
    hold: Keep | None = None
    """What is left of an object once the listeners heard it, where they hold the rest in a form of their own."""
    label_selector: Mapping[str, str] | None = None
    synced: asyncio.Event = field(default_factory=asyncio.Event)
    last_error: str = ""
    """Why the last list or watch failed; empty while it works."""
    _objects: dict[Key, bytes] = field(default_factory=dict[Key, bytes])
    """As JSON: a quarter of what the objects take, and read back in microseconds."""
    _listeners: list[Listener] = field(default_factory=list[Listener])
    _version: str = ""
    _wait: float = FIRST_RETRY_SECONDS

    def add_listener(self, listener: Listener) -> None:
        """``listener`` is called for each change from now on, in order; it must not block nor raise."""
        self._listeners.append(listener)

    def get(self, name: str, namespace: str | None = None) -> Json | None:
        """The object as last seen. None is no proof of absence: read it from the server before acting on that."""
        return _read(self._objects.get((namespace or "", name)))

    def objects(self) -> Iterator[Json]:
        return (read_object(held) for held in list(self._objects.values()))

    async def run(self) -> None:
        """List and watch until cancelled. Failures are retried, later and later up to ten seconds."""
        while True:
            try:
                if not self._version:
                    await self._list()
                await self._watch()
            except GoneError as error:
                torn, self._version = not self._version, ""
                if torn:  # between two pages: a list that takes too long is not begun anew without a pause
                    await self._pause(error)
            except KubeError as error:
                await self._pause(error)

    async def _pause(self, error: KubeError) -> None:
        self.last_error = str(error)
        wait, self._wait = self._wait, min(self._wait * 2, LAST_RETRY_SECONDS)
        await self.clock.sleep(wait)

    async def _list(self) -> None:
        fresh: set[Key] = set()
        version = ""
        async for page in self.kube.pages(self.resource, self.namespace, self.label_selector, self.keep):
            version = page.resource_version
            for body in page.items:
                key = key_of(body)
                fresh.add(key)
                old = self.get(key[1], key[0])
                if old is None or _version(old) != _version(body):
                    self.apply(key, body)
            await asyncio.sleep(0)  # others have leases to renew
        for key in [key for key in self._objects if key not in fresh]:
            self.apply(key, None)
        self._version = version
        self._heard()
        self.synced.set()

    async def _watch(self) -> None:
        begun = self.clock.monotonic_seconds()
        async for event in self.kube.watch(self.resource, self._version, self.namespace, self.label_selector):
            if event.type != "BOOKMARK":
                self.apply(key_of(event.object), None if event.type == "DELETED" else self._kept(event.object))
            lasts = self.clock.monotonic_seconds() - begun >= LAST_RETRY_SECONDS
            if event.type != "BOOKMARK" or lasts:  # not yet where a watch is taken up and fails each time
                self._wait = FIRST_RETRY_SECONDS
            self._version, self.last_error = _version(event.object), ""
        self._heard()  # the server ended the watch in good order

    def apply(self, key: Key, new: Json | None) -> None:
        old = _read(self._objects.pop(key, None) if new is None else self._objects.get(key))
        if new is not None:
            self._objects[key] = msgspec.json.encode(new if self.hold is None else self.hold(new))
        elif old is None:
            return  # it never was one of ours
        for listener in self._listeners:
            listener(Change(key, old, new))

    def _kept(self, body: Json) -> Json:
        return body if self.keep is None else self.keep(body)

    def _heard(self) -> None:
        self._wait = FIRST_RETRY_SECONDS
        self.last_error = ""


def key_of(body: Json) -> Key:
    return sys.intern(str(body["metadata"].get("namespace") or "")), sys.intern(str(body["metadata"]["name"]))


def _read(held: bytes | None) -> Json | None:
    return None if held is None else read_object(held)


def _version(body: Json) -> str:
    return str(body["metadata"].get("resourceVersion", ""))
