"""Which spare is taken: pure, from what is known of the hosts."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from sparewheel.api.gpu_host import GpuHost
from sparewheel.capacity.claims import is_free


def spares_in_order(
    hosts: Sequence[GpuHost], *, near: GpuHost | None = None, refused: Collection[str] = ()
) -> list[GpuHost]:
    """Free spares that could take ``near``'s place, the best first.

    The instance type must be the same (a job's ranks must be equal). Better: the same fabric block, then one that gave
    no trouble last time, then one that is in the cluster already.
    """
    fit = [host for host in hosts if is_free(host) and host.metadata.name not in refused and _same_type(host, near)]
    return sorted(
        fit,
        key=lambda host: (
            bool(host.status.reason),
            near is not None and host.spec.fabric_block != near.spec.fabric_block,
            host.status.node_name is None,
            host.metadata.name,
        ),
    )


def _same_type(host: GpuHost, near: GpuHost | None) -> bool:
    if near is None:
        return True
    return host.metadata.name != near.metadata.name and host.spec.instance_type == near.spec.instance_type
