"""The claim on a host: one owner at a time, by compare-and-swap on the GpuHost's resourceVersion.

A look-up or a write that failed claims nothing and frees nothing; asking again with the same owner is harmless.
"""

from __future__ import annotations

from collections.abc import AsyncIterable, AsyncIterator, Callable, Iterable
from typing import Final

from sparewheel.api.gpu_host import Claim, GpuHost, GpuHostStatus, HostPhase
from sparewheel.api.names import CLAIM_OF_INCIDENT
from sparewheel.capacity.hosts import Change, read_host, swap_status, update_status
from sparewheel.capacity.port import CapacityError
from sparewheel.clock import Clock
from sparewheel.kube.port import ConflictError, Kube, NotFoundError

INCIDENT: Final = CLAIM_OF_INCIDENT
"""Owners of this form are incidents."""
PERSON: Final = "person/"
"""Owners of this form do what a person asked for a host."""
ON_THE_WAY: Final = frozenset({HostPhase.SPARE, HostPhase.JOINING, HostPhase.CHECKING})
"""Phases of a claimed host that does not serve yet."""


class ClaimedError(CapacityError):
    """Somebody else holds the host."""


def is_free(host: GpuHost) -> bool:
    """Can the host be claimed as a spare?"""
    return host.status.phase is HostPhase.SPARE and host.status.claim is None


def owner_of(host: GpuHost) -> str | None:
    return host.status.claim.owner if host.status.claim is not None else None


async def claim(
    kube: Kube,
    namespace: str,
    name: str,
    claim: Claim,
    allowed: Callable[[GpuHost], bool],
    change: Change | None = None,
) -> GpuHost:
    """Claim a host, and change it in the same write; ClaimedError when another holds it or it is not ``allowed``."""

    def decide(host: GpuHost) -> Change | None:
        holder = owner_of(host)
        if holder == claim.owner:
            return None
        if holder is not None or not allowed(host):
            by = f"claimed by {holder}" if holder else f"in phase {host.status.phase.value}"
            raise ClaimedError(f"host {name} can't be claimed for {claim.owner}: it is {by}")

        def claimed(status: GpuHostStatus) -> None:
            if change is not None:
                change(status)
            status.claim = claim

        return claimed

    return await update_status(kube, namespace, name, decide)


async def in_turn(hosts: Iterable[GpuHost]) -> AsyncIterator[GpuHost]:
    """Whatever runs on them."""
    for host in hosts:
        yield host


async def claim_first(
    kube: Kube,
    namespace: str,
    hosts: Iterable[GpuHost],
    order: AsyncIterable[GpuHost],
    owner: str,
    purpose: Callable[[GpuHost], str],
    clock: Clock,
    allowed: Callable[[GpuHost], bool] = is_free,
) -> GpuHost | None:
    """The host that ``owner`` brings in already, else the first of ``order`` that it gets; None: there is none.

    ``allowed`` is asked of the host as it is at the claim, not as it was when it was listed.
    """
    for host in hosts:
        if owner_of(host) == owner and host.status.phase in ON_THE_WAY:
            return host
    async for host in order:
        try:
            ours = Claim(owner=owner, purpose=purpose(host), time=clock.now())
            return await claim(kube, namespace, host.metadata.name, ours, allowed)
        except (ClaimedError, ConflictError, NotFoundError):
            continue  # another was quicker
    return None


async def holds(kube: Kube, namespace: str, name: str, owner: str) -> bool:
    """Read afresh: does ``owner`` hold the host? Raises KubeError when that can't be known."""
    try:
        return owner_of(await read_host(kube, namespace, name)) == owner
    except NotFoundError:
        return False


async def as_owner(kube: Kube, namespace: str, name: str, owner: str, change: Change) -> GpuHost:
    """Change the status of a host that ``owner`` holds; ClaimedError when it doesn't."""

    def decide(host: GpuHost) -> Change:
        if owner_of(host) != owner:
            raise ClaimedError(f"host {name} is not held by {owner} but by {owner_of(host) or 'nobody'}; nothing done")
        return change

    return await update_status(kube, namespace, name, decide)


async def let_go(kube: Kube, host: GpuHost, owner: str, change: Change) -> GpuHost:
    """Give the claim back together with ``change``, in one write."""

    def both(status: GpuHostStatus) -> None:
        change(status)
        status.claim = None

    if owner_of(host) != owner:
        raise ClaimedError(f"host {host.metadata.name} is not held by {owner}; nothing done")
    try:
        return await swap_status(kube, host, both)
    except ConflictError:
        return await as_owner(kube, host.metadata.namespace or "", host.metadata.name, owner, both)
