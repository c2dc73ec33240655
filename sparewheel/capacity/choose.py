"""Which spare takes a host's place, and why: pure, from what is known of the hosts. The same input, the same choice."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Final

from sparewheel.api.gpu_host import GpuHost
from sparewheel.api.gpu_pool import GpuPool
from sparewheel.api.names import GPU_RESOURCE
from sparewheel.capacity.claims import is_free, owner_of
from sparewheel.capacity.hosts import spec_of
from sparewheel.capacity.port import Inventory

CHECKED_RECENTLY: Final = timedelta(hours=1)
"""A spare that passed its checks within this time goes before one that did not."""


@dataclass(frozen=True, slots=True)
class Need:
    """What a spare has to offer to take a place. ``host`` empty: any place of the pool."""

    host: str = ""
    instance_type: str | None = None
    """None: any. A job's ranks must be equal, so otherwise it must be the same."""
    resources: Mapping[str, int] = field(default_factory=dict[str, int])
    fabric_block: str = ""
    nvlink_domain: str = ""


def as_listed(host: GpuHost, listed: Mapping[str, Inventory]) -> GpuHost:
    """The host with what its inventory says of it now."""
    machine = listed.get(host.spec.host)
    return host if machine is None else host.model_copy(update={"spec": spec_of(host.spec.pool, machine)})


def need_of(pool: GpuPool | None, near: GpuHost | None) -> Need:
    """As much as ``near`` has, and never fewer GPUs than each node of the pool shall have."""
    gpus = {GPU_RESOURCE: pool.spec.gpus_per_node} if pool is not None else {}
    if near is None:
        return Need(resources=gpus)
    spec = near.spec
    return Need(
        host=near.metadata.name,
        instance_type=spec.instance_type,
        resources={**spec.resources, **gpus},
        fabric_block=spec.fabric_block,
        nvlink_domain=spec.nvlink_domain,
    )


def why_unfit(host: GpuHost, need: Need) -> str:
    """Why the host can't take the place, as far as the inventory says; empty when it can."""
    if host.metadata.name == need.host:
        return "it is the host to be replaced"
    if host.status.lemon:
        return "it is a lemon"
    if need.instance_type is not None and host.spec.instance_type != need.instance_type:
        return f"it is of type {host.spec.instance_type or 'unknown'}, not {need.instance_type or 'unknown'}"
    for name, wanted in sorted(need.resources.items()):
        has = host.spec.resources.get(name)
        if has is None and name == GPU_RESOURCE:
            continue  # not declared: the checks count the GPUs before it takes work
        if has is None or has < wanted:
            return f"it has {'no known' if has is None else has} {name}, not {wanted}"
    return ""


def why_not(host: GpuHost, need: Need, refused: Collection[str] = ()) -> str:
    """As ``why_unfit``, and whether it is free now and was not refused before."""
    if host.metadata.name in refused:
        return "it failed its checks in this incident"
    unfit = why_unfit(host, need)
    if unfit:
        return unfit
    if owner_of(host):
        return f"it is claimed by {owner_of(host)}"
    return "" if is_free(host) else f"it is {host.status.phase.value}"


def spares_in_order(
    hosts: Sequence[GpuHost], need: Need, *, now: datetime, refused: Collection[str] = ()
) -> list[GpuHost]:
    """The free and fit ones, the best first.

    Better is: no trouble last time, then the same NVLink domain, the same fabric block, checked within the hour, in
    the cluster already; then the name decides.
    """
    fit = [host for host in hosts if not why_not(host, need, refused)]
    return sorted(fit, key=lambda host: (*(not good for good in _merits(host, need, now)), host.metadata.name))


def _merits(host: GpuHost, need: Need, now: datetime) -> tuple[bool, ...]:
    return (
        not host.status.reason,
        not need.host or host.spec.nvlink_domain == need.nvlink_domain,
        not need.host or host.spec.fabric_block == need.fabric_block,
        checked_recently(host, now),
        host.status.node_name is not None,
    )


def checked_recently(host: GpuHost, now: datetime) -> bool:
    checked = host.status.checked_at
    return checked is not None and now - checked <= CHECKED_RECENTLY


def reason_of(host: GpuHost, need: Need, now: datetime) -> str:
    """Why this one: a sentence's end for the record, such as ``same type h200, same fabric block b1, 3 in reserve``."""
    spec, status = host.spec, host.status
    words: list[str] = []
    if need.host:
        words.append(f"same type {spec.instance_type}" if spec.instance_type else "same type")
        words += _nearness("NVLink domain", spec.nvlink_domain, need.nvlink_domain)
        words += _nearness("fabric block", spec.fabric_block, need.fabric_block)
    if status.checked_at is None:
        words.append("never checked before")
    else:
        words.append(f"last checked {int((now - status.checked_at).total_seconds() // 60)} min ago")
    if status.node_name is not None:
        words.append("in the cluster already")
    if status.reason:
        words.append(f"although it gave trouble ({status.reason})")
    return ", ".join(words)


def _nearness(what: str, has: str, wanted: str) -> list[str]:
    if not (has or wanted):
        return []
    return [f"same {what} {has}" if has == wanted else f"{what} {has or 'unknown'} instead of {wanted or 'unknown'}"]


def none_fits(
    hosts: Sequence[GpuHost], need: Need, refused: Collection[str] = (), left_over: Mapping[str, str] | None = None
) -> str:
    """What is in the way of each host that stands by, for people: ``gpu-7: it is a lemon; ...``; empty: none is.

    ``left_over``: what else keeps a host from work.
    """
    idle = [host for host in hosts if host.metadata.name != need.host and host.status.phase.value in _STANDING_BY]
    also = left_over or {}
    whys = ((host.metadata.name, why_not(host, need, refused) or also.get(host.spec.host, "")) for host in idle)
    return "; ".join(f"{name}: {why}" for name, why in whys)


_STANDING_BY: Final = frozenset({"Spare", "Joining", "Checking", "Quarantined"})
