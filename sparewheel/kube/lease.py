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
from sparewheel.api.names import GROUP
from sparewheel.clock import Clock
from sparewheel.kube.pace import URGENCY, Urgency
from sparewheel.kube.port import LEASE, ConflictError, InvalidError, Json, Kube, KubeError, NotFoundError
from sparewheel.tasks import ended

ANNOTATION_CODE_VERSION: Final = f"{GROUP}/code-version"
"""On a Lease: version of the code that holds it; another version doesn't drive in its place but asks and waits."""
RETRY_SECONDS: Final = 0.5


class LeaseLostError(Exception):
    """The Lease could not be renewed in time or was taken: stop at once, somebody else may act now."""


@dataclass(frozen=True, slots=True)
class LeaseTiming:
    """``duration_seconds`` until a rival may take over; renewed every ``renew_seconds``."""

    duration_seconds: int = 8
    renew_seconds: float = 2.0

    @property
    def hold_seconds(self) -> float:
        """How long a renewal entitles to act, counted from before it was sent."""
        return self.duration_seconds - self.renew_seconds


@dataclass(frozen=True, slots=True)
class Holder:
    """Who holds a Lease, as far as it says."""

    identity: str = ""
    version: str = ""
    renewed: str = ""
    duration_seconds: float = 0.0


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


async def holder_of(kube: Kube, name: str, namespace: str) -> Holder | None:
    """Who holds the Lease; None when nobody does. Says nothing about whether the holder still lives."""
    try:
        holder = _holder(await kube.get(LEASE, name, namespace))
    except NotFoundError:
        return None
    return holder if holder.identity else None


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
    on_wait: Callable[[Holder], None] | None = None,
) -> AsyncGenerator[LeaseHandle, None]:
    """Wait for the Lease, hold it during the block, give it back after.

    ``on_wait`` is told the holder each time the wait looks again. When the Lease is lost the block is cancelled and
    LeaseLostError comes out of it.
    """
    handle = LeaseHandle(name, namespace, identity, clock, timing or LeaseTiming())
    await _acquire(kube, handle, version, on_wait)
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
                await _within(handle, _release(kube, handle))


def _this_task() -> asyncio.Task[Any]:
    return cast("asyncio.Task[Any]", asyncio.current_task())


async def _acquire(kube: Kube, handle: LeaseHandle, version: str, on_wait: Callable[[Holder], None] | None) -> None:
    clock = handle.clock
    seen: Holder | None = None
    seen_at = clock.monotonic_seconds()
    while True:
        try:
            if await _try_acquire(kube, handle, version, seen, seen_at):
                return
        except InvalidError:
            raise
        except KubeError:
            pass  # nothing known, or somebody was quicker: look again
        now = clock.monotonic_seconds()
        current = _holder(handle.body)
        if current != seen:
            seen, seen_at = current, now
        if on_wait is not None and current.identity:
            on_wait(current)
        await clock.sleep(min(RETRY_SECONDS, handle.timing.renew_seconds))


async def _try_acquire(kube: Kube, handle: LeaseHandle, version: str, seen: Holder | None, seen_at: float) -> bool:
    """Take the Lease if it is free, or if its holder was silent for its whole duration while we watched."""
    clock = handle.clock
    try:
        handle.body = await kube.get(LEASE, handle.name, handle.namespace)
    except NotFoundError:
        started = clock.monotonic_seconds()
        handle.body = await kube.create(LEASE, _claimed({}, handle, version), handle.namespace)
    else:
        current = _holder(handle.body)
        silent = current == seen and clock.monotonic_seconds() - seen_at >= current.duration_seconds
        if current.identity and not silent:
            return False
        started = clock.monotonic_seconds()
        handle.body = await kube.replace(LEASE, _claimed(handle.body, handle, version), handle.namespace)
    handle.valid_until_seconds = started + handle.timing.hold_seconds
    return True


async def _renew_until_lost(kube: Kube, handle: LeaseHandle, version: str) -> None:
    """Returns when the Lease is lost; a request that hangs doesn't keep us beyond our time."""
    clock = handle.clock
    while True:
        await clock.sleep(min(handle.timing.renew_seconds, handle.remaining_seconds))
        while not await _within(handle, _renew(kube, handle, version)):
            if not handle.remaining_seconds or _taken(handle):
                return
            await clock.sleep(min(RETRY_SECONDS, handle.remaining_seconds))


async def _within(handle: LeaseHandle, request: Coroutine[Any, Any, bool]) -> bool:
    """The request's result, or False when our time is over first."""
    attempt = asyncio.ensure_future(request)
    deadline = asyncio.ensure_future(handle.clock.sleep(handle.remaining_seconds))
    try:
        done, _ = await asyncio.wait({attempt, deadline}, return_when=asyncio.FIRST_COMPLETED)
        return attempt in done and attempt.result()
    finally:
        for task in (attempt, deadline):
            task.cancel()


async def _renew(kube: Kube, handle: LeaseHandle, version: str) -> bool:
    started = handle.clock.monotonic_seconds()
    try:
        handle.body = await kube.replace(LEASE, _claimed(handle.body, handle, version), handle.namespace)
    except ConflictError:  # our own earlier write whose answer was lost, an annotation, or a rival
        with suppress(KubeError):
            handle.body = await kube.get(LEASE, handle.name, handle.namespace)
        return False
    except KubeError:
        return False
    handle.valid_until_seconds = started + handle.timing.hold_seconds
    return True


async def _release(kube: Kube, handle: LeaseHandle) -> bool:
    """Empty the holder, so that the next one need not wait. Failing is harmless: the Lease runs out."""
    body = _claimed(handle.body, handle, "")
    body["spec"] |= {"holderIdentity": "", "leaseDurationSeconds": 1}
    with suppress(KubeError):
        await kube.replace(LEASE, body, handle.namespace)
        return True
    return False


def _taken(handle: LeaseHandle) -> bool:
    return _holder(handle.body).identity != handle.identity


def _holder(body: Json) -> Holder:
    spec = cast("Json", body.get("spec") or {})
    annotations = cast("Json", body.get("metadata", {}).get("annotations") or {})
    return Holder(
        identity=str(spec.get("holderIdentity") or ""),
        version=str(annotations.get(ANNOTATION_CODE_VERSION, "")),
        renewed=str(spec.get("renewTime", "")),
        duration_seconds=float(spec.get("leaseDurationSeconds") or 0),
    )


def _claimed(body: Json, handle: LeaseHandle, version: str) -> Json:
    """The Lease with us as holder, renewed now."""
    spec = cast("Json", body.get("spec") or {})
    metadata = cast("Json", body.get("metadata") or {"name": handle.name})
    now = format_time(handle.clock.now())
    ours = spec.get("holderIdentity") == handle.identity
    return {
        "apiVersion": "coordination.k8s.io/v1",
        "kind": "Lease",
        "metadata": {
            **metadata,
            "annotations": {**(metadata.get("annotations") or {}), ANNOTATION_CODE_VERSION: version},
        },
        "spec": {
            **spec,
            "holderIdentity": handle.identity,
            "leaseDurationSeconds": handle.timing.duration_seconds,
            "acquireTime": spec.get("acquireTime") if ours else now,
            "renewTime": now,
            "leaseTransitions": int(spec.get("leaseTransitions") or 0) + (0 if ours or not spec else 1),
        },
    }
