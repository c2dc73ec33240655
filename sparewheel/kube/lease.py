"""Who may act: one holder of a Lease at a time, judged on the monotonic clock alone.

A holder that can't renew stops ``renew_seconds`` before anybody else may take over, since a rival counts the full
duration from a renewal that it saw no earlier than we sent it. Wall times in the Lease are for people.
"""

from __future__ import annotations

import asyncio
import socket
import uuid
from collections.abc import AsyncGenerator, Callable, Coroutine
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from typing import Any, Final, cast

from sparewheel.api.base import format_time
from sparewheel.clock import Clock
from sparewheel.kube.lease_object import Holder, claimed, holder_in
from sparewheel.kube.pace import URGENCY, Urgency
from sparewheel.kube.port import (
    LEASE,
    ConflictError,
    InvalidError,
    Json,
    Kube,
    KubeError,
    NotFoundError,
    UnavailableError,
)
from sparewheel.tasks import ended

RETRY_SECONDS: Final = 0.5


class LeaseLostError(Exception):
    """The Lease could not be renewed in time or was taken: stop at once, somebody else may act now."""


@dataclass(frozen=True, slots=True)
class LeaseTiming:
    """``duration_seconds`` until a rival may take over; renewed every ``renew_seconds``.

    A try that is not answered for ``renew_seconds`` no longer keeps us from the next one.
    """

    duration_seconds: int = 8
    renew_seconds: float = 2.0

    @property
    def hold_seconds(self) -> float:
        """How long a renewal entitles to act, counted from before it was sent."""
        return self.duration_seconds - self.renew_seconds

    @property
    def stand_back_seconds(self) -> float:
        """Who lost the Lease waits this long before it tries again: by then a rival has had its turn. Else one that can
        take the Lease and not renew it would lead in fits for ever."""
        return self.duration_seconds - self.hold_seconds + self.renew_seconds + 2 * RETRY_SECONDS


@dataclass(slots=True)
class LeaseHandle:
    """A held Lease. Ask ``check()`` right before what can't be taken back."""

    name: str
    namespace: str
    identity: str
    clock: Clock
    timing: LeaseTiming
    lost: asyncio.Event = field(default_factory=asyncio.Event)
    valid_until_seconds: float = 0.0
    """On the monotonic clock."""
    body: Json = field(default_factory=dict[str, Any])

    def claim(self, body: Json, version: str) -> Json:
        """The Lease with us as holder, renewed now."""
        now = format_time(self.clock.now())
        return claimed(body, self.name, Holder(self.identity, version, now, self.timing.duration_seconds))

    @property
    def remaining_seconds(self) -> float:
        """How long we may act without another renewal; 0 when no longer."""
        remaining = self.valid_until_seconds - self.clock.monotonic_seconds()
        return remaining if remaining > 0.001 else 0.0

    def check(self) -> None:
        """Raise LeaseLostError unless we may act now."""
        if self.lost.is_set() or not self.remaining_seconds:
            raise LeaseLostError(
                f"Lease {self.namespace}/{self.name} is no longer held by {self.identity}; work stopped"
            )


def new_identity() -> str:
    """An identity that no other process has, also not this one's next incarnation: HOST_RANDOM."""
    return f"{socket.gethostname()}_{uuid.uuid4().hex[:8]}"


@dataclass(frozen=True, slots=True)
class WhileWaiting:
    """``holder`` is told who holds the Lease each time the wait looks again; ``silence`` is called for each look that
    the API server did not answer."""

    holder: Callable[[Holder], None] = lambda _: None
    silence: Callable[[], None] = lambda: None


@asynccontextmanager
async def held(
    kube: Kube,
    name: str,
    namespace: str,
    identity: str,
    clock: Clock,
    *,
    version: str,
    timing: LeaseTiming | None = None,
    while_waiting: WhileWaiting | None = None,
) -> AsyncGenerator[LeaseHandle, None]:
    """Wait for the Lease, hold it during the block, give it back after.

    When the Lease is lost the block is cancelled and LeaseLostError comes out of it.
    """
    handle = LeaseHandle(name, namespace, identity, clock, timing or LeaseTiming())
    await _acquire(kube, handle, version, while_waiting or WhileWaiting())
    worker = _this_task()

    async def keep() -> None:
        URGENCY.set(Urgency.LEASE)
        try:
            await _renew_until_lost(kube, handle, version)
        finally:
            if not _this_task().cancelling():
                handle.lost.set()
                worker.cancel()

    keeper = asyncio.create_task(keep(), name=f"lease {name}")
    told = False  # the keeper cancels once: a second cancellation is somebody else's

    def is_keepers() -> bool:
        nonlocal told
        told, before = True, told
        return not before and handle.lost.is_set() and worker.uncancel() == 0

    try:
        yield handle
    except asyncio.CancelledError:
        if is_keepers():
            handle.check()
        raise
    finally:
        try:
            await ended(keeper)
        except asyncio.CancelledError:
            if not is_keepers():
                raise
        finally:
            if not handle.lost.is_set():
                with suppress(UnavailableError):
                    await _within(handle, handle.remaining_seconds, _release(kube, handle))


def _this_task() -> asyncio.Task[Any]:
    return cast("asyncio.Task[Any]", asyncio.current_task())


async def _acquire(kube: Kube, handle: LeaseHandle, version: str, told: WhileWaiting) -> None:
    clock = handle.clock
    seen: Holder | None = None
    seen_at = clock.monotonic_seconds()
    while True:
        try:
            if await _within(handle, handle.timing.hold_seconds, _try_acquire(kube, handle, version, seen, seen_at)):
                return
        except InvalidError:
            raise
        except UnavailableError:  # nothing known
            told.silence()
        except KubeError:
            pass  # somebody was quicker: look again
        now = clock.monotonic_seconds()
        current = holder_in(handle.body)
        if current != seen:
            seen, seen_at = current, now
        if current.identity:
            told.holder(current)
        await clock.sleep(min(RETRY_SECONDS, handle.timing.renew_seconds))


async def _try_acquire(kube: Kube, handle: LeaseHandle, version: str, seen: Holder | None, seen_at: float) -> bool:
    """Take the Lease if it is free, or if its holder was silent for its whole duration while we watched."""
    clock = handle.clock
    try:
        handle.body = await kube.get(LEASE, handle.name, handle.namespace)
    except NotFoundError:
        started = clock.monotonic_seconds()
        handle.body = await kube.create(LEASE, handle.claim({}, version), handle.namespace)
    else:
        current = holder_in(handle.body)
        silent = current == seen and clock.monotonic_seconds() - seen_at >= current.duration_seconds
        if current.identity not in {"", handle.identity} and not silent:  # ours: an earlier try's answer was lost
            return False
        started = clock.monotonic_seconds()
        handle.body = await kube.replace(LEASE, handle.claim(handle.body, version), handle.namespace)
    handle.valid_until_seconds = started + handle.timing.hold_seconds
    return True


async def _renew_until_lost(kube: Kube, handle: LeaseHandle, version: str) -> None:
    """Returns when the Lease is lost; a request that hangs doesn't keep us beyond our time."""
    while True:
        late_seconds = handle.timing.hold_seconds - handle.remaining_seconds  # since the last renewal was sent
        await handle.clock.sleep(min(handle.timing.renew_seconds - late_seconds, handle.remaining_seconds))
        if not await _renewed(kube, handle, version):
            return


async def _renewed(kube: Kube, handle: LeaseHandle, version: str) -> bool:
    """Try until one succeeds; False when our time is over or the Lease is taken.

    One that fails is tried again after a moment, one that hangs (a dead connection, a server that is slow) goes on
    beside the next: whichever is answered first counts.
    """
    clock, begun = handle.clock, 0.0
    tries: list[asyncio.Task[bool]] = []
    pause: asyncio.Task[None] | None = None
    try:
        while handle.remaining_seconds and not _taken(handle):
            if not tries or clock.monotonic_seconds() - begun >= handle.timing.renew_seconds:
                begun = clock.monotonic_seconds()
                tries.append(asyncio.create_task(_renew(kube, handle, version), name=f"renew lease {handle.name}"))
            pause = asyncio.create_task(clock.sleep(min(RETRY_SECONDS, handle.remaining_seconds)))
            await asyncio.wait({pause, *tries}, return_when=asyncio.FIRST_COMPLETED)
            if not _any_succeeded(tries):
                await pause
            if _any_succeeded(tries):
                return True
            tries = [one for one in tries if not one.done()]
        return False
    finally:
        for task in (*tries, *([pause] if pause is not None else [])):
            task.cancel()


def _any_succeeded(tries: list[asyncio.Task[bool]]) -> bool:
    return any(one.done() and one.result() for one in tries)


async def _within(handle: LeaseHandle, seconds: float, request: Coroutine[Any, Any, bool]) -> bool:
    """The request's result. Raises UnavailableError when that time is over first."""
    attempt = asyncio.ensure_future(request)
    deadline = asyncio.ensure_future(handle.clock.sleep(seconds))
    try:
        done, _ = await asyncio.wait({attempt, deadline}, return_when=asyncio.FIRST_COMPLETED)
        if attempt not in done:
            raise UnavailableError(f"Lease {handle.namespace}/{handle.name}: no answer within {seconds:g} s")
        return attempt.result()
    finally:
        for task in (attempt, deadline):
            task.cancel()


async def _renew(kube: Kube, handle: LeaseHandle, version: str) -> bool:
    started = handle.clock.monotonic_seconds()
    try:
        handle.body = await kube.replace(LEASE, handle.claim(handle.body, version), handle.namespace)
    except ConflictError:  # our own earlier write whose answer was lost, an annotation, or a rival
        with suppress(KubeError):
            handle.body = await kube.get(LEASE, handle.name, handle.namespace)
        return False
    except KubeError:
        return False
    handle.valid_until_seconds = max(handle.valid_until_seconds, started + handle.timing.hold_seconds)
    return True


async def _release(kube: Kube, handle: LeaseHandle) -> bool:
    """Empty the holder, so that the next one need not wait. Failing is harmless: the Lease runs out."""
    body = handle.claim(handle.body, "")
    body["spec"] |= {"holderIdentity": "", "leaseDurationSeconds": 1}
    with suppress(KubeError):
        await kube.replace(LEASE, body, handle.namespace)
        return True
    return False


def _taken(handle: LeaseHandle) -> bool:
    return holder_in(handle.body).identity != handle.identity
