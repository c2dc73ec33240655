"""What the cluster holds, kept by list and watch; readers get the newest known state without a request."""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Callable, Iterator
from typing import Final

import httpx

from lab.standins.slinky.kube import Kube, KubeError
from lab.standins.slinky.objects import Obj, name_of, namespace_of, uid_of
from sparewheel.clock import Clock

log: Final = logging.getLogger(__name__)

Changed = Callable[[str, Obj | None, Obj | None], None]
"""Called with kind, the object before (None: new) and after (None: gone)."""

_RETRY_SECONDS: Final = 1.0
_REMEMBERED: Final = 1000
"""So many objects that have gone are known as such."""


class Store:
    """Objects of the watched kinds by namespace and name."""

    def __init__(self, changed: Changed) -> None:
        self._objects: dict[str, dict[tuple[str, str], Obj]] = {}
        self._gone: deque[str] = deque(maxlen=_REMEMBERED)
        self._changed = changed
        self._synced: dict[str, asyncio.Event] = {}

    def get(self, kind: str, namespace: str, name: str) -> Obj | None:
        """The object, if known."""
        return self._objects.get(kind, {}).get((namespace, name))

    def all(self, kind: str, namespace: str | None = None) -> Iterator[Obj]:
        """Every object of a kind, in one namespace or all."""
        for (at, _), obj in list(self._objects.get(kind, {}).items()):
            if namespace is None or at == namespace:
                yield obj

    def put(self, obj: Obj) -> None:
        """Take in an object that the API server just returned, unless a newer state is known.

        The answer to a write may come after the watch has told that the object has gone.
        """
        if uid_of(obj) and uid_of(obj) in self._gone:
            return
        held = self.get(obj["kind"], namespace_of(obj), name_of(obj))
        if held is None or _version(obj) > _version(held):
            self._set(obj)

    def _set(self, obj: Obj) -> None:
        kind = str(obj["kind"])
        key = (namespace_of(obj), name_of(obj))
        held = self._objects.setdefault(kind, {})
        before = held.get(key)
        held[key] = obj
        if before is None or _version(before) != _version(obj):
            self._changed(kind, before, obj)

    def _remove(self, kind: str, key: tuple[str, str]) -> None:
        before = self._objects.setdefault(kind, {}).pop(key, None)
        if before is not None:
            self._gone.append(uid_of(before))
            self._changed(kind, before, None)

    async def synced(self, kinds: list[str]) -> None:
        """Wait until every kind has been listed once."""
        for kind in kinds:
            await self._synced.setdefault(kind, asyncio.Event()).wait()

    async def follow(self, kube: Kube, kind: str, clock: Clock) -> None:
        """Keep one kind up to date for ever; list again whenever a watch can't go on."""
        while True:
            try:
                version = await self._relist(kube, kind)
                self._synced.setdefault(kind, asyncio.Event()).set()
                while True:
                    version = await self._watch(kube, kind, version)
            except (KubeError, httpx.HTTPError) as error:
                if not (isinstance(error, KubeError) and error.code == 410):
                    log.warning("watch of %s broke, listing again: %s", kind, str(error) or type(error).__name__)
                    await clock.sleep(_RETRY_SECONDS)

    async def _relist(self, kube: Kube, kind: str) -> str:
        found, version = await kube.list(kind)
        keys = {(namespace_of(one), name_of(one)) for one in found}
        for key in list(self._objects.get(kind, {})):
            if key not in keys:
                self._remove(kind, key)
        for one in found:
            self._set(one)
        return version

    async def _watch(self, kube: Kube, kind: str, version: str) -> str:
        async for what, obj in kube.watch(kind, version):
            version = obj["metadata"]["resourceVersion"]
            if what == "DELETED":
                self._remove(kind, (namespace_of(obj), name_of(obj)))
            elif what != "BOOKMARK":
                self._set(obj)
        return version


def _version(obj: Obj) -> int:
    return int(obj["metadata"].get("resourceVersion", "0") or 0)
