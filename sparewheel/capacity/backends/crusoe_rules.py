"""When we may act in a Crusoe cluster, and when a node pool may grow. Pure: decided from what the API answered."""

from __future__ import annotations

from collections.abc import Collection, Sequence

import msgspec

from sparewheel.api.names import TAINT_SPARE
from sparewheel.crusoe.wire import AutoClusters, NodePool, Operation, Reservation

NAMED = 3


def other_healer(cluster_id: str, auto: AutoClusters | None) -> str:
    """Why we may not act: AutoClusters changes nodes here. Empty where it is off, only detects, or isn't there."""
    acting = auto.acting if auto is not None else []
    if not acting:
        return ""
    more = f" and {len(acting) - NAMED} more" if len(acting) > NAMED else ""
    return (
        f"cluster {cluster_id}: AutoClusters acts on {', '.join(acting[:NAMED])}{more}, and a node has one healer, "
        "never two; nothing was done. Set its actions to OFF, or take the pool out of the stack"
    )


def under_remediation(vm_id: str, pool_vms: Collection[str], operations: Sequence[Operation]) -> str:
    """An operation of AutoClusters that has to do with the VM, or may: which fields name its VM isn't published."""
    for operation in operations:
        text = msgspec.json.encode([operation.metadata, operation.result]).decode().lower()
        if vm_id.lower() in text or not any(other.lower() in text for other in pool_vms):
            return f"AutoClusters operation {operation.operation_id} is under way"
    return ""


def taint_missing(pool: NodePool) -> str:
    """A VM that the pool makes must join tainted, or it takes work before it was checked."""
    taints = pool.node_taints or []
    if any(taint.key == TAINT_SPARE and taint.effect == "NoSchedule" for taint in taints):
        return ""
    return f"its new VMs would join without the taint {TAINT_SPARE}:NoSchedule; add it to the pool's node_taints"


def may_grow(auto: AutoClusters | None, reservation: Reservation | None, lacking: int, room: int) -> tuple[int, str]:
    """How many VMs more may be asked for, and why not all. The project's reservations are used only where the
    cluster's configuration does not forbid it. ``room``: how many more the stack lets the node pool count."""
    if reservation is None:
        return 0, "the stack names no reservation to take more from"
    if auto is not None and auto.fallback_to_project_reservations is False:
        return 0, "fallback_to_project_reservations is off, so the project's reservations are not used"
    if room < 1:
        return 0, "it counts max_extra VMs beyond the pool's size and spares already"
    lacking = min(lacking, room)
    if reservation.free < lacking:
        return reservation.free, f"reservation {reservation.id} has {reservation.free} free of {reservation.quantity}"
    return lacking, ""
