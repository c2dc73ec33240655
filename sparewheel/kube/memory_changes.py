"""What has changed in the Kubernetes in memory, in order; the watches that tell it, and lists in pages."""

from __future__ import annotations

import asyncio
from bisect import bisect_right
from collections.abc import AsyncGenerator, Iterator, Mapping
from dataclasses import dataclass, field
from operator import attrgetter
from typing import Final, Literal

from sparewheel.kube.objects import clone, labels_match
from sparewheel.kube.port import GoneError, Json, Listing, Resource, WatchEvent, opened

KEPT_CHANGES: Final = 10_000
"""So many changes of a kind at least can be watched from; older versions are too old, as on an API server."""
_PAGE: Final = 100


@dataclass(slots=True)
class _Logged:
    version: int
    namespace: str
    event: WatchEvent


_version_of: Final = attrgetter("version")


@dataclass(slots=True)
class _OfKind:
    """What changed of one kind, and what its watches wait for."""

    oldest: int = 1
    log: list[_Logged] = field(default_factory=list[_Logged])
    news: asyncio.Event = field(default_factory=asyncio.Event)

    def wake(self) -> None:
        self.news.set()
        self.news.clear()

    def newer(self, version: int) -> list[_Logged]:
        if not self.log or self.log[-1].version <= version:
            return []
        return self.log[bisect_right(self.log, version, key=_version_of) :]


@dataclass(slots=True)
class Changes:
    _kinds: dict[Resource, _OfKind] = field(default_factory=dict[Resource, _OfKind])
    _forgotten: int = 1
    _epoch: int = 0

    def add(
        self,
        version: int,
        resource: Resource,
        namespace: str,
        kind: Literal["ADDED", "MODIFIED", "DELETED"],
        body: Json,
    ) -> None:
        """``body`` is not changed any more."""
        changed = self._of(resource)
        changed.log.append(_Logged(version, namespace, WatchEvent(kind, body)))
        if len(changed.log) > 2 * KEPT_CHANGES:
            del changed.log[:KEPT_CHANGES]
            changed.oldest = changed.log[0].version - 1
        changed.wake()

    def end_watches(self) -> None:
        self._epoch += 1
        for kind in self._kinds.values():
            kind.wake()

    def forget(self, version: int) -> None:
        """Every version before this one is too old to watch from."""
        self._forgotten = version
        for kind in self._kinds.values():
            kind.log.clear()

    async def watch(
        self, resource: Resource, since: int, namespace: str | None, labels: Mapping[str, str]
    ) -> AsyncGenerator[WatchEvent, None]:
        """Each change after version ``since``, until the watches are ended."""
        seen, epoch, changed = since, self._epoch, self._of(resource)
        self._must_know(resource, seen)
        yield opened(str(since))
        while epoch == self._epoch:
            self._must_know(resource, seen)
            for logged in changed.newer(seen):
                seen = logged.version
                if namespace is None or logged.namespace == namespace:
                    inside = labels_match(logged.event.object, labels)
                    yield WatchEvent(logged.event.type if inside else "DELETED", clone(logged.event.object))
            if not changed.newer(seen) and epoch == self._epoch:  # something may have come in while we yielded
                await changed.news.wait()

    def _of(self, resource: Resource) -> _OfKind:
        return self._kinds.setdefault(resource, _OfKind())

    def _must_know(self, resource: Resource, version: int) -> None:
        if version < max(self._forgotten, self._of(resource).oldest):
            raise GoneError(f"watch {resource.kind}: 410 too old resource version: {version}")


def in_pages(whole: Listing) -> Iterator[Listing]:
    """At least one, as an API server sends a long list."""
    for first in range(0, max(1, len(whole.items)), _PAGE):
        yield Listing(whole.items[first : first + _PAGE], whole.resource_version)
