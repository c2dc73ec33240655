"""GpuHost objects: made from the inventory, changed by compare-and-swap alone."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final

from sparewheel.api.base import ObjectMeta, lean
from sparewheel.api.gpu_host import GpuHost, GpuHostSpec, GpuHostStatus, HostPhase
from sparewheel.api.gpu_pool import GpuPool
from sparewheel.api.names import (
    API_VERSION,
    GROUP,
    LABEL_HOST,
    LABEL_POOL,
    LABEL_ROLE,
    ROLE_ACTIVE,
    ROLE_QUARANTINED,
    TAINT_JOINING,
)
from sparewheel.capacity.nodes import boot_id_of, has_taint, labels_of
from sparewheel.capacity.port import CapacityError, Inventory
from sparewheel.clock import Clock
from sparewheel.kube.port import GPU_HOST, ConflictError, Json, Kube

ANNOTATION_REPLACE_DONE: Final = f"{GROUP}/replace-done"
"""On a GpuHost: it was replaced because the pool's ``replace`` list names it; gone once the list no longer does."""
CAME_BACK: Final = "its Node was registered anew"
"""Why an active host is checked again."""
ATTEMPTS: Final = 6

Change = Callable[[GpuHostStatus], None]


async def read_host(kube: Kube, namespace: str, name: str) -> GpuHost:
    """Read afresh, never from a cache."""
    return GpuHost.from_wire(await kube.get(GPU_HOST, name, namespace))


async def hosts_of(kube: Kube, namespace: str, pool: str) -> list[GpuHost]:
    """The pool's hosts by name. Several pools may share the namespace."""
    listing = await kube.list(GPU_HOST, namespace, {LABEL_POOL: pool})
    found = [lean(host) for host in map(GpuHost.from_wire, listing.items) if host.spec.pool == pool]
    return sorted(found, key=lambda host: host.metadata.name)


async def swap_status(kube: Kube, host: GpuHost, change: Change) -> GpuHost:
    """Write ``host`` as changed by ``change``; ConflictError when somebody wrote since ``host`` was read."""
    status = host.status.model_copy(deep=True)
    change(status)
    if status == host.status:
        return host
    body = host.model_copy(update={"status": status}).to_wire()
    return GpuHost.from_wire(await kube.replace(GPU_HOST, body, host.metadata.namespace, "status"))


async def update_status(kube: Kube, namespace: str, name: str, decide: Callable[[GpuHost], Change | None]) -> GpuHost:
    """Read, let ``decide`` look (None: nothing to do; it may raise), swap; again on a conflict."""
    for attempt in range(ATTEMPTS):
        host = await read_host(kube, namespace, name)
        change = decide(host)
        if change is None:
            return host
        try:
            return await swap_status(kube, host, change)
        except ConflictError:
            if attempt == ATTEMPTS - 1:
                raise
    raise AssertionError("unreachable")


def entering(phase: HostPhase, clock: Clock, reason: str = "") -> Change:
    """A change into a phase; the time of entering is kept when the host is in it already."""
    now = clock.now()

    def change(status: GpuHostStatus) -> None:
        if status.phase is not phase or status.since is None:
            status.since = now
        status.phase, status.reason = phase, reason

    return change


async def sync_hosts(
    kube: Kube,
    pool: GpuPool,
    inventory: list[Inventory],
    nodes: Mapping[str, Json],
    clock: Clock,
    before_write: Callable[[], None],
) -> list[GpuHost]:
    """Make the GpuHosts that the inventory lists and that are missing; keep their facts fresh. Returns all."""
    namespace = pool.metadata.namespace or ""
    present = {host.metadata.name: host for host in await hosts_of(kube, namespace, pool.metadata.name)}
    for machine in inventory:
        host = present.get(machine.host)
        if host is None:
            before_write()
            host = present[machine.host] = await _make(kube, pool, machine)
        if host.status.since is None:
            before_write()
            first = _first_status(pool, machine.host, nodes.get(machine.host), clock)
            present[machine.host] = await swap_status(kube, host, first)
        elif host.spec != spec_of(pool.metadata.name, machine):
            before_write()
            patch: Json = {"spec": spec_of(pool.metadata.name, machine).model_dump(mode="json", by_alias=True)}
            gone = host.spec.resources.keys() - machine.resources.keys()
            patch["spec"]["resources"] |= dict.fromkeys(gone)
            present[machine.host] = GpuHost.from_wire(await kube.merge_patch(GPU_HOST, machine.host, patch, namespace))
    return sorted(present.values(), key=lambda host: host.metadata.name)


def spec_of(pool: str, machine: Inventory) -> GpuHostSpec:
    return GpuHostSpec(
        pool=pool,
        host=machine.host,
        provider_id=machine.provider_id,
        instance_type=machine.instance_type,
        fabric_block=machine.fabric_block,
        nvlink_domain=machine.nvlink_domain,
        resources=dict(machine.resources),
    )


async def _make(kube: Kube, pool: GpuPool, machine: Inventory) -> GpuHost:
    owner = {
        "apiVersion": API_VERSION,
        "kind": GpuPool.KIND,
        "name": pool.metadata.name,
        "uid": pool.metadata.uid,
    }
    metadata = ObjectMeta.model_validate(
        {"name": machine.host, "labels": {LABEL_POOL: pool.metadata.name}, "ownerReferences": [owner]}
    )
    wanted = GpuHost(metadata=metadata, spec=spec_of(pool.metadata.name, machine))
    body = wanted.to_wire()
    del body["status"]
    try:
        return GpuHost.from_wire(await kube.create(GPU_HOST, body, pool.metadata.namespace))
    except ConflictError:
        there = await read_host(kube, pool.metadata.namespace or "", machine.host)
    if there.spec.pool != pool.metadata.name:
        raise CapacityError(
            f"machine {machine.host} of pool {pool.metadata.name} belongs to pool {there.spec.pool} already; "
            "list it in one pool only"
        )
    # Ours, and hidden from the pool's own list: somebody took its label away.
    label = {"metadata": {"labels": {LABEL_POOL: pool.metadata.name}}}
    return GpuHost.from_wire(await kube.merge_patch(GPU_HOST, machine.host, label, pool.metadata.namespace))


def _first_status(pool: GpuPool, name: str, node: Json | None, clock: Clock) -> Change:
    """Spare; but a Node that serves the pool already is taken over as it is, and its jobs go on."""
    labels = labels_of(node) if node is not None else {}
    ours = labels.get(LABEL_POOL) == pool.metadata.name and labels.get(LABEL_HOST) == name

    def change(status: GpuHostStatus) -> None:
        status.since = status.since or clock.now()
        if node is None or not ours or status.node_name is not None:
            return
        if labels.get(LABEL_ROLE) == ROLE_ACTIVE and not has_taint(node, TAINT_JOINING):
            status.phase, status.node_name, status.boot_id = HostPhase.ACTIVE, name, boot_id_of(node) or None
        elif labels.get(LABEL_ROLE) == ROLE_QUARANTINED:
            status.phase, status.node_name, status.refused_boot_id = HostPhase.QUARANTINED, name, boot_id_of(node)

    return change
