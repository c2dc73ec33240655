"""What has changed in the Kubernetes in memory, in order; the watches that tell it, and lists in pages."""

from __future__ import annotations

import asyncio
from bisect import bisect_right
from collections.abc import AsyncGenerator, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Final, Literal

from sparewheel.kube.objects import clone, labels_match
from sparewheel.kube.port import GoneError, Json, Listing, Resource, WatchEvent, opened

KEPT_CHANGES: Final = 10_000
"""So many changes at least can be watched from; older versions are too old, as on an API server."""
_PAGE: Final = 100


@dataclass(slots=True)
class _Logged:
    version: int
    resource: Resource
    namespace: str
    event: WatchEvent


def _version_of(logged: _Logged) -> int:
    return logged.version


@dataclass(slots=True)
class Changes:
    _oldest: int = 1
    _log: list[_Logged] = field(default_factory=list[_Logged])
    _news: asyncio.Event = field(default_factory=asyncio.Event)
    _epoch: int = 0

    def add(
        self,
        version: int,
        resource: Resource,
        namespace: str,
        kind: Literal["ADDED", "MODIFIED", "DELETED"],
        body: Json,
    ) -> None:
        self._log.append(_Logged(version, resource, namespace, WatchEvent(kind, clone(body))))
        if len(self._log) > 2 * KEPT_CHANGES:
            del self._log[:KEPT_CHANGES]
            self._oldest = self._log[0].version - 1
        self._wake()

    def end_watches(self) -> None:
        self._epoch += 1
        self._wake()

    def forget(self, version: int) -> None:
        """Every version before this one is too old to watch from."""
        self._oldest = version
        self._log.clear()

    async def watch(
        self, resource: Resource, since: int, namespace: str | None, labels: Mapping[str, str]
    ) -> AsyncGenerator[WatchEvent, None]:
        """Each change after version ``since``, until the watches are ended."""
        seen, epoch = since, self._epoch
        self._must_know(resource, seen)
        yield opened(str(since))
        while epoch == self._epoch:
            news = self._news
            self._must_know(resource, seen)
            for logged in self._log[bisect_right(self._log, seen, key=_version_of) :]:
                seen = logged.version
                if logged.resource == resource and (namespace is None or logged.namespace == namespace):
                    inside = labels_match(logged.event.object, labels)
                    yield WatchEvent(logged.event.type if inside else "DELETED", clone(logged.event.object))
            await news.wait()  # already set when something came in while we yielded

    def _must_know(self, resource: Resource, version: int) -> None:
        if version < self._oldest:
            raise GoneError(f"watch {resource.kind}: 410 too old resource version: {version}")

    def _wake(self) -> None:
        news, self._news = self._news, asyncio.Event()
        news.set()


def in_pages(whole: Listing) -> Iterator[Listing]:
    """At least one, as an API server sends a long list."""
    for first in range(0, max(1, len(whole.items)), _PAGE):
        yield Listing(whole.items[first : first + _PAGE], whole.resource_version)
