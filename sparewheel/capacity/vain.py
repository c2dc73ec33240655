"""Searches for a spare that found nothing: in a storm hundreds wait for one, and each look reads the pool's Nodes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final

from sparewheel.api.gpu_host import GpuHost
from sparewheel.api.gpu_pool import GpuPool
from sparewheel.capacity.claims import is_free, owner_of
from sparewheel.clock import Clock

REST: Final = 10.0
"""Of all time a tenth at most is spent on such looks, whatever one takes and however many pools lack spares."""
LONGEST_REST_SECONDS: Final = 30.0


@dataclass(frozen=True, slots=True)
class _Vain:
    owners: frozenset[str | None]
    why: str
    until_monotonic: float
    generation: int | None


@dataclass(slots=True)
class VainSearches:
    """That there is none may be believed a little too long, which costs time alone; a claim is always made afresh."""

    clock: Clock
    _by_pool: dict[str, _Vain] = field(default_factory=dict[str, _Vain])
    _freed: dict[str, float] = field(default_factory=dict[str, float])
    """When a host of the pool was last seen to be free, by the monotonic clock."""

    def of(self, pool: GpuPool, owner: str) -> str | None:
        """Why there is none, as last seen; None: look. Who holds one of the pool's hosts has to look for itself."""
        vain = self._by_pool.get(pool.metadata.name)
        if vain is None or owner in vain.owners or vain.generation != pool.metadata.generation:
            return None
        if self.clock.monotonic_seconds() >= vain.until_monotonic:
            del self._by_pool[pool.metadata.name]
            return None
        return vain.why

    def note(self, pool: GpuPool, hosts: Sequence[GpuHost], why: str, began_monotonic: float) -> None:
        """A look that began then got nothing. One that saw a free host, which did not fit, says nothing for others."""
        freed = self._freed.get(pool.metadata.name, float("-inf"))
        if any(is_free(host) for host in hosts) or freed >= began_monotonic:
            return
        now = self.clock.monotonic_seconds()
        pools = len(self._by_pool.keys() | {pool.metadata.name})
        rest = min(LONGEST_REST_SECONDS, REST * pools * (now - began_monotonic))
        owners = frozenset(owner_of(host) for host in hosts)
        self._by_pool[pool.metadata.name] = _Vain(owners, why, now + rest, pool.metadata.generation)

    def forget(self, pool: str) -> None:
        """A host of the pool is free again; a look that is under way may not have seen it."""
        self._freed[pool] = self.clock.monotonic_seconds()
        self._by_pool.pop(pool, None)
