"""How long a Node that somebody removed is waited for: first by the controller, then by capacity. Pure.

Each measures by what it has: the controller by its own monotonic clock, since it may not count while the API server is
silent; capacity, which runs in short calls anywhere, by the time that it wrote into the host. The rule is this one.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Final

from sparewheel.api.gpu_host import GpuHost
from sparewheel.api.gpu_pool import GpuPoolSpec

LEFT_TO_INCIDENTS_SECONDS: Final = 120.0
"""After the pool's ``node_removed_seconds``: a controller makes an incident of a missing Node within this time."""


def lacks_node(host: GpuHost, nodes: Collection[str]) -> bool:
    """``nodes``: the names of all that there are."""
    name = host.status.node_name
    return name not in nodes and bool(name)


def incident_due(missing_seconds: float, spec: GpuPoolSpec | None) -> bool:
    """It did not come back. Of a pool that isn't known nothing is made."""
    return spec is not None and missing_seconds >= spec.node_removed_seconds


def left_alone(missing_seconds: float, spec: GpuPoolSpec) -> bool:
    """Long after its time nobody made an incident of it: no controller runs, or none that may."""
    return missing_seconds > spec.node_removed_seconds + LEFT_TO_INCIDENTS_SECONDS
