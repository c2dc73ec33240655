"""Drives one pool to what is asked of it, for whoever asks: Pulumi on `up` and `destroy`, a person on the command line.

The pool's Lease says who drives. Whoever does not get it - another process, or code of another version - waits and
watches the pool until it is as asked. Everything here may be cut at any moment and run again.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from typing import Any, cast

from sparewheel import __version__
from sparewheel.api.gpu_pool import Driver, GpuPool, GpuPoolSpec, NodeSetRef
from sparewheel.api.names import (
    ANNOTATION_INCARNATION,
    LABEL_POOL,
    LABEL_ROLE,
    ROLE_ACTIVE,
    pool_lease,
)
from sparewheel.capacity.heard import Reports
from sparewheel.capacity.port import CapacityError, UnreachableError
from sparewheel.capacity.providers import provider_for
from sparewheel.capacity.reconcile import reconcile_pool
from sparewheel.capacity.release import release_hosts
from sparewheel.clock import Clock, SystemClock
from sparewheel.kube.access import from_text
from sparewheel.kube.client import KubeClient
from sparewheel.kube.lease import LeaseLostError, WhileWaiting, held, new_identity
from sparewheel.kube.lease_object import Holder
from sparewheel.kube.port import (
    GPU_POOL,
    NODE,
    NODE_SET,
    POD,
    ConflictError,
    Json,
    Kube,
    KubeError,
    NotFoundError,
    TooManyRequestsError,
    UnavailableError,
)

Say = Callable[[str], None]
LOOK_SECONDS = 1.0
NOT_NOW = (UnavailableError, TooManyRequestsError)
"""An API server that is away, or busy, as for seconds after kinds were made (429, "storage is (re)initializing")."""


@dataclass(frozen=True, slots=True)
class Target:
    """A pool in a cluster. ``kubeconfig`` is the text of one, a secret."""

    kubeconfig: str
    namespace: str
    pool: str


class Progress:
    """Says a line once, when it is another than the last."""

    def __init__(self, say: Say) -> None:
        self._say = say
        self.last = ""

    def __call__(self, text: str) -> None:
        if text != self.last:
            self.last = text
            self._say(text)


@asynccontextmanager
async def _cluster(target: Target) -> AsyncGenerator[Kube, None]:
    async with KubeClient(from_text(target.kubeconfig)) as kube:
        yield kube


async def read_spec(target: Target) -> dict[str, Any] | None:
    """The pool's spec as it is in the cluster; None only when the API server answered that there is no such pool."""
    async with _cluster(target) as kube:
        try:
            return cast("dict[str, Any]", (await kube.get(GPU_POOL, target.pool, target.namespace))["spec"])
        except NotFoundError:
            return None


async def drive_pool(
    target: Target,
    desired: GpuPoolSpec,
    incarnation: str,
    deadline_seconds: float,
    say: Say,
    clock: Clock | None = None,
) -> None:
    """Returns when the pool has ``size`` active nodes with workers in Slurm. CapacityError says what it waits for."""
    clock = clock or SystemClock()
    progress = Progress(say)
    async with _cluster(target) as kube:
        await _within(deadline_seconds, progress, target, _claim(kube, target, desired, incarnation, progress, clock))
        drive = _watch if desired.driver is Driver.CONTROLLER else _drive
        await _within(deadline_seconds, progress, target, drive(kube, target, progress, clock))
        await _within(deadline_seconds, progress, target, _workers(kube, target, desired, progress, clock))


async def release_pool(
    target: Target, incarnation: str, deadline_seconds: float, say: Say, clock: Clock | None = None
) -> None:
    """Pause, drain, release, verify. Nothing happens when the pool belongs to another incarnation by now."""
    clock = clock or SystemClock()
    progress = Progress(say)
    async with _cluster(target) as kube:
        try:
            body = await kube.get(GPU_POOL, target.pool, target.namespace)
        except NotFoundError:
            progress("there is no such pool in the cluster; nothing to release")
            return
        owner = cast("dict[str, str]", body["metadata"].get("annotations") or {}).get(ANNOTATION_INCARNATION)
        if owner is not None and owner != incarnation:
            progress(f"belongs to incarnation {owner} now; nothing to release for {incarnation}")
            return
        await _pause(kube, target)
        pool = GpuPool.from_wire(body)
        await _within(deadline_seconds, progress, target, _release(kube, pool, target, progress, clock))


async def _claim(
    kube: Kube, target: Target, desired: GpuPoolSpec, incarnation: str, progress: Progress, clock: Clock
) -> None:
    while True:
        try:
            return await _claim_once(kube, target, desired, incarnation)
        except TooManyRequestsError as error:
            progress(f"{error}; trying again")
            await clock.sleep(LOOK_SECONDS)


async def _claim_once(kube: Kube, target: Target, desired: GpuPoolSpec, incarnation: str) -> None:
    """Write the incarnation on the pool, and end a pause that a cut destroy left."""
    body = await kube.get(GPU_POOL, target.pool, target.namespace)
    found = GpuPool.from_wire(body).spec
    if found.model_copy(update={"paused": desired.paused}) != desired:
        raise CapacityError(
            f"GpuPool {target.namespace}/{target.pool} in the cluster isn't what the stack says; "
            "somebody changed it there: run 'pulumi refresh', then 'pulumi up'"
        )
    patch: Json = {"metadata": {"annotations": {ANNOTATION_INCARNATION: incarnation}}}
    if found.paused != desired.paused:
        patch["spec"] = {"paused": desired.paused}
    await kube.merge_patch(GPU_POOL, target.pool, patch, target.namespace)


async def _pause(kube: Kube, target: Target) -> None:
    """From here on the controller leaves the pool's hosts alone."""
    await kube.merge_patch(GPU_POOL, target.pool, {"spec": {"paused": True}}, target.namespace)


async def _drive(kube: Kube, target: Target, progress: Progress, clock: Clock) -> None:
    """Hold the pool's Lease and reconcile until it is settled, or until somebody else has settled it."""
    ours = asyncio.create_task(_drive_ourselves(kube, target, progress, clock))
    theirs = asyncio.create_task(_watch(kube, target, progress, clock, quiet=True))
    done, pending = await asyncio.wait({ours, theirs}, return_when=asyncio.FIRST_COMPLETED)
    for task in pending:
        task.cancel()
    await asyncio.gather(*pending, return_exceptions=True)
    for task in done:
        task.result()


async def _drive_ourselves(kube: Kube, target: Target, progress: Progress, clock: Clock) -> None:
    def waits(holder: Holder) -> None:
        version = f" of version {holder.version}" if holder.version != __version__ else ""
        progress(f"{holder.identity}{version} drives this pool; waiting until it is as asked")

    identity, reports = new_identity(), Reports()
    while True:
        try:
            async with held(
                kube,
                pool_lease(target.pool),
                target.namespace,
                identity,
                clock,
                version=__version__,
                while_waiting=WhileWaiting(waits),
            ) as lease:
                while not await _reconcile_once(kube, target, lease.check, progress, clock, reports):
                    await clock.sleep(LOOK_SECONDS)
                return
        except LeaseLostError:
            progress("lost the pool's Lease; waiting for it")


async def _reconcile_once(
    kube: Kube, target: Target, check: Callable[[], None], progress: Progress, clock: Clock, reports: Reports
) -> bool:
    check()
    try:
        result = await reconcile_pool(kube, target.namespace, target.pool, clock, reports, before_write=check)
    except (*NOT_NOW, UnreachableError, ConflictError) as error:
        progress(f"{error}; trying again")
        return False
    progress(result.message)
    return result.settled


async def _watch(kube: Kube, target: Target, progress: Progress, clock: Clock, *, quiet: bool = False) -> None:
    """Wait until the pool's status says that it is as asked, whoever does it."""
    while True:
        try:
            pool = GpuPool.from_wire(await kube.get(GPU_POOL, target.pool, target.namespace))
        except NOT_NOW:
            pool = None
        if pool is not None:
            current = pool.status.observed_generation == pool.metadata.generation
            if current and pool.status.active >= pool.spec.size:
                return
            if not quiet:
                progress(pool.status.message or f"{pool.status.active} of {pool.spec.size} nodes are active")
        await clock.sleep(LOOK_SECONDS)


async def _workers(kube: Kube, target: Target, desired: GpuPoolSpec, progress: Progress, clock: Clock) -> None:
    """Wait until the pool's active nodes have ready workers, which a worker is once it is registered in Slurm."""
    while True:
        with suppress(*NOT_NOW):
            ready = await _ready_workers(kube, target.pool, desired.node_set_ref)
            progress(f"{ready} of {desired.size} workers are ready")
            if ready >= desired.size:
                return
        await clock.sleep(LOOK_SECONDS)


async def _ready_workers(kube: Kube, pool: str, ref: NodeSetRef) -> int:
    """Read from the pods: the NodeSet's own count lags behind a node that has just left."""
    try:
        await kube.get(NODE_SET, ref.name, ref.namespace)
    except NotFoundError as error:
        raise CapacityError(f"NodeSet {ref.namespace}/{ref.name} isn't there; make it before its machines") from error
    nodes = await kube.list(NODE, label_selector={LABEL_POOL: pool, LABEL_ROLE: ROLE_ACTIVE})
    active = {str(node["metadata"]["name"]) for node in nodes.items if not node["spec"].get("unschedulable")}
    pods = await kube.list(POD, ref.namespace, label_selector=ref.worker_labels)
    return sum(_is_ready(pod) and pod["spec"].get("nodeName") in active for pod in pods.items)


def _is_ready(pod: Json) -> bool:
    status = cast("dict[str, Any]", pod.get("status") or {})
    conditions = cast("list[dict[str, Any]]", status.get("conditions") or [])
    ready = any(item["type"] == "Ready" and item["status"] == "True" for item in conditions)
    return ready and not pod["metadata"].get("deletionTimestamp")


async def _release(kube: Kube, pool: GpuPool, target: Target, progress: Progress, clock: Clock) -> None:
    def waits(holder: Holder) -> None:
        progress(f"{holder.identity} drives this pool; waiting for it to stop")

    lease_name, identity = pool_lease(target.pool), new_identity()
    async with held(
        kube, lease_name, target.namespace, identity, clock, version=__version__, while_waiting=WhileWaiting(waits)
    ) as lease:
        provider = await provider_for(kube, pool, clock)
        await release_hosts(kube, provider, pool, clock, before_write=lease.check, say=progress)


async def _within(seconds: float, progress: Progress, target: Target, work: Any) -> None:
    """Our own deadline: the engine sets none and can't stop us."""
    try:
        async with asyncio.timeout(seconds):
            await work
    except TimeoutError as error:
        raise CapacityError(
            f"pool {target.pool}: not done after {seconds:g} s, last: {progress.last}; see "
            f"'kubectl -n {target.namespace} get gpuhosts' and run it again, it goes on where it stopped"
        ) from error
    except KubeError as error:
        raise CapacityError(f"pool {target.pool}: {error}") from error
