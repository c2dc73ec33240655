"""One controller's connection to one port: trouble on the way, death at a write, and a witness at the end."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import AsyncGenerator, Callable
from dataclasses import dataclass, field
from random import Random
from typing import Any

from sparewheel.capacity.port import UnreachableError
from sparewheel.kube.port import (
    EVENT,
    LEASE,
    ConflictError,
    GoneError,
    Resource,
    TooManyRequestsError,
    UnavailableError,
    WatchEvent,
)
from sparewheel.notify.port import NotifyError
from sparewheel.slurm.port import SlurmUnavailableError
from tests.soak.schedule import Event
from tests.support.mortal import KUBE_WRITES, NOTIFIER_WRITES, REPLACER_WRITES, SLURM_WRITES, Life

PORTS = {"kube": KUBE_WRITES, "slurm": SLURM_WRITES, "capacity": REPLACER_WRITES, "notify": NOTIFIER_WRITES}
TIMEOUT_SECONDS = 10.0
STALL_LOOK_SECONDS = 0.5
Seen = Callable[[str, str, tuple[Any, ...], dict[str, Any]], Callable[[Any], None] | None]
"""Told port, method and arguments right before an effect; may return what is told the result after it."""


@dataclass(slots=True)
class Window:
    """Trouble that is under way."""

    event: Event
    until: float
    chance: Random

    @property
    def fields(self) -> dict[str, Any]:
        return self.event.fields


@dataclass(slots=True)
class Chaos:
    """All trouble that is under way; each window has dice of its own, so that none changes another's."""

    seed: int
    windows: list[Window] = field(default_factory=list[Window])
    over: bool = False

    def begin(self, event: Event) -> None:
        until = asyncio.get_running_loop().time() + float(event.fields["seconds"])
        self.windows.append(Window(event, until, Random(f"{self.seed}/{event}")))

    def end_all(self) -> None:
        self.windows.clear()
        self.over = True

    def now(self, *kinds: str) -> list[Window]:
        if not self.windows:
            return []
        time = asyncio.get_running_loop().time()
        self.windows = [window for window in self.windows if window.until > time]
        return [window for window in self.windows if window.event.kind in kinds]

    async def before(self, port: str, method: str, args: tuple[Any, ...]) -> None:
        """Whatever keeps the request from arriving."""
        lease = port == "kube" and bool(args) and args[0] == LEASE
        for window in self.now("outage", "slow", "flaky", "lease trouble"):
            if window.event.kind == "lease trouble":
                if lease and method in KUBE_WRITES:
                    raise UnavailableError(f"{method}: no answer")
            elif window.fields["port"] != port:
                continue
            elif window.event.kind == "outage":
                raise _error(port, "500", method, args)
            elif window.event.kind == "slow":
                await asyncio.sleep(window.fields["delay"])
            elif not lease and window.fields["when"] == "before" and self._strikes(window):
                raise _error(port, window.fields["error"], method, args)

    async def after(self, port: str, method: str, args: tuple[Any, ...]) -> None:
        """The answer of a request that took effect is lost."""
        for window in self.now("flaky"):
            same = window.fields["port"] == port and window.fields["when"] == "after"
            if same and not (port == "kube" and args and args[0] == LEASE) and self._strikes(window):
                if window.fields["error"] == "429":
                    await asyncio.sleep(TIMEOUT_SECONDS)
                raise _error(port, "500", method, args)

    @staticmethod
    def _strikes(window: Window) -> bool:
        return window.chance.random() < window.fields["share"]


def _error(port: str, code: str, method: str, args: tuple[Any, ...]) -> Exception:
    """What each port's client makes of the answer."""
    what = f"{method} {getattr(args[0], 'kind', args[0]) if args else ''}: {code}"
    if port == "slurm":
        return SlurmUnavailableError(what)
    if port == "capacity":
        return UnreachableError(what) if code == "500" else ConflictError(what)
    if port == "notify":
        return NotifyError(what, retry_after_seconds=5.0 if code == "429" else None)
    if code == "409" and method in KUBE_WRITES:
        return ConflictError(what)
    if code == "429":
        return TooManyRequestsError(what) if method == "evict" else UnavailableError(what)
    return UnavailableError(what)


class Wire:
    """Has every method of the port."""

    def __init__(self, target: Any, port: str, chaos: Chaos, life: Life, seen: Seen) -> None:
        self._target, self._port, self._chaos, self._life, self._seen = target, port, chaos, life, seen
        self._writes = PORTS[port]

    def __getattr__(self, method: str) -> Any:
        target, counts = getattr(self._target, method), method in self._writes
        if not inspect.iscoroutinefunction(target):
            return target  # asks nobody, writes nothing

        async def call(*args: Any, **kwargs: Any) -> Any:
            life, port = self._life, self._port
            if life.dead.is_set():
                raise _error(port, "500", method, args)
            fatal = counts and not (args and args[0] in (EVENT, LEASE)) and self._counted(method)
            await self._chaos.before(port, method, args)
            if fatal and life.when == "before":
                await self._die()
            told = self._seen(port, method, args, kwargs) if counts else None
            result = await target(*args, **kwargs)
            if told is not None:
                told(result)
            if fatal:
                await self._die()
            await self._chaos.after(port, method, args)
            return result

        setattr(self, method, call)  # not asked for again
        return call

    def _counted(self, method: str) -> bool:
        fatal = self._life.die_at == len(self._life.writes)
        self._life.writes.append(method)
        return fatal

    async def _die(self) -> None:
        self._life.dead.set()
        await asyncio.Event().wait()

    # ------------------------------------------------------------------ watches
    async def watch(
        self,
        resource: Resource,
        resource_version: str,
        namespace: str | None = None,
        label_selector: Any = None,
    ) -> AsyncGenerator[WatchEvent, None]:
        if self._life.dead.is_set():
            raise UnavailableError("watch: this controller is dead")
        await self._chaos.before("kube", "watch", (resource,))
        stream = self._target.watch(resource, resource_version, namespace, label_selector)
        lost = False
        async for event in stream:
            while self._here("watch stalls", resource):  # noqa: ASYNC110 - it ends with the time
                await asyncio.sleep(STALL_LOOK_SECONDS)
            if event.type != "BOOKMARK" and self._here("watch loses", resource):
                lost = True
                continue
            if lost:
                raise GoneError(f"watch {resource.kind}: 410 too old resource version")
            yield event
            if self._here("watch repeats", resource):
                yield event

    def _here(self, kind: str, resource: Resource) -> bool:
        return any(window.fields["what"] == resource.kind for window in self._chaos.now(kind))
