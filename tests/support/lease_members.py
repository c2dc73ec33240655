"""Candidates of an election, each with a line of its own to the shared server."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field

from sparewheel.kube.lease import LeaseHandle, LeaseLostError, WhileWaiting, held
from sparewheel.kube.lease_object import Holder
from sparewheel.kube.memory import MemoryKube
from sparewheel.kube.memory_faults import Call
from sparewheel.kube.port import Json, Resource, UnavailableError
from tests.support.clocks import LoopClock

SPACE = "sparewheel"


@dataclass
class Member:
    """One candidate with its own connection to the shared server."""

    server: MemoryKube
    identity: str
    clock: LoopClock = field(default_factory=LoopClock)
    reign: list[tuple[float, float]] = field(default_factory=list[tuple[float, float]])
    handle: LeaseHandle | None = None
    lost: bool = False
    waited_for: list[Holder] = field(default_factory=list[Holder])

    async def run(self, work_seconds: float = 1e6) -> None:
        started = None
        try:
            async with held(
                self.server,
                "l",
                SPACE,
                self.identity,
                self.clock,
                version="1",
                while_waiting=WhileWaiting(self.waited_for.append),
            ) as handle:
                self.handle = handle
                started = self.clock.monotonic_seconds()
                await self.clock.sleep(work_seconds)
        except LeaseLostError:
            self.lost = True
        finally:
            if started is not None:
                self.reign.append((started, self.clock.monotonic_seconds()))


class CutKube(MemoryKube):
    """A member's view of a shared server through a line that can be cut or hang."""

    def __init__(self, server: MemoryKube) -> None:
        super().__init__(clock=server.clock)
        self._objects, self.server = server._objects, server
        self.cut = False
        self.hang = False

    async def _begin(self, call: Call) -> None:
        hung_at = self.clock.monotonic_seconds()
        while self.hang and self.clock.monotonic_seconds() < hung_at + 15:  # noqa: ASYNC110  # the client's time-out
            await asyncio.sleep(0.25)
        if self.cut or self.hang:
            raise UnavailableError("line cut")
        self._version = self.server._version
        await super()._begin(call)

    def _store(self, resource: Resource, key: tuple[str, str], body: Json, existing: Json | None) -> Json:
        self._version = self.server._version
        stored = super()._store(resource, key, body, existing)
        self.server._version = self._version
        return stored
