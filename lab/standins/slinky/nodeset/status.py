"""What a NodeSet's status and its pods' conditions say about Slurm."""

from __future__ import annotations

import json
from datetime import datetime
from typing import Final, NamedTuple

from lab.standins.slinky import names
from lab.standins.slinky.builders import worker
from lab.standins.slinky.nodeset import pods
from lab.standins.slinky.objects import Obj, dig, format_time, is_deleting, name_of, namespace_of, uid_of
from lab.standins.slinky.slurm_rest import SlurmNode

# A node has one base state, the first of these that it bears, and any number of flags.
BASE_STATES: Final = {
    "ALLOCATED": "Allocated",
    "DOWN": "Down",
    "ERROR": "Error",
    "FUTURE": "Future",
    "IDLE": "Idle",
    "MIXED": "Mixed",
    "UNKNOWN": "Unknown",
}
FLAGS: Final = {
    "COMPLETING": "Completing",
    "DRAIN": "Drain",
    "FAIL": "Fail",
    "INVALID": "Invalid",
    "INVALID_REG": "InvalidReg",
    "MAINTENANCE": "Maintenance",
    "NOT_RESPONDING": "NotResponding",
    "UNDRAIN": "Undrain",
}


def slurm_conditions(slurm: SlurmNode | None) -> dict[str, str]:
    """Condition types a pod must bear (all True), with their message: the Slurm reason."""
    if slurm is None:
        return {}
    base = next((name for state, name in BASE_STATES.items() if state in slurm.states), None)
    shown = ([base] if base else []) + [name for state, name in FLAGS.items() if state in slurm.states]
    return {names.SLURM_STATE_CONDITION + name: slurm.reason for name in shown}


def condition_patch(pod: Obj, slurm: SlurmNode | None, now: datetime) -> Obj | None:
    """A strategic merge patch that makes the pod's Slurm conditions right; None if they are."""
    wanted = slurm_conditions(slurm)
    held: dict[str, str] = {}
    conditions: list[Obj] = dig(pod, "status", "conditions", default=[])
    for one in conditions:
        if str(one["type"]).startswith(names.SLURM_STATE_CONDITION):
            held[str(one["type"])] = one.get("message", "")
    if wanted == held:
        return None
    changes: list[Obj] = [{"type": gone, "$patch": "delete"} for gone in sorted(set(held) - set(wanted))]
    for kind, message in wanted.items():
        if held.get(kind) != message:
            change: Obj = {"type": kind, "status": "True", "message": message}
            if kind not in held:
                change["lastTransitionTime"] = format_time(now)
            changes.append(change)
    return {"status": {"conditions": changes}}


def pod_info(nodeset: Obj, pod: Obj) -> Obj:
    """What the Slurm node's comment says about its pod."""
    return {
        "namespace": namespace_of(pod),
        "podName": name_of(pod),
        "node": pods.host(pod),
        "nodeSetName": name_of(nodeset),
        "nodeSetUID": uid_of(nodeset),
    }


class CommentUpdate(NamedTuple):
    """A comment to write; ``moved``: the pod is on another host than the comment said, so the node is set IDLE."""

    comment: str
    moved: bool


def comment_update(nodeset: Obj, pod: Obj, slurm: SlurmNode) -> CommentUpdate | None:
    """The comment that a Slurm node needs; None if it is right."""
    info = pod_info(nodeset, pod)
    try:
        old: Obj = json.loads(slurm.comment) if slurm.comment else {}
    except ValueError:
        old = {}
    if old == info:
        return None
    before = str(dig(old, "node", default=""))
    return CommentUpdate(json.dumps(info, separators=(",", ":")), bool(before) and before != info["node"])


def nodeset_status(
    nodeset: Obj, held: list[Obj], slurm: dict[str, SlurmNode] | None, revision: str, now: datetime
) -> Obj:
    """The status of a NodeSet, conditions left out. ``slurm`` None: no slurmrestd to ask."""
    minimum = dig(nodeset, "spec", "minReadySeconds", default=0)
    created = [pod for pod in held if pods.phase(pod)]
    ready = [pod for pod in created if pods.phase(pod) == "Running" and pods.is_ready(pod)]
    available = [pod for pod in ready if pods.is_available(pod, minimum, now)]
    updated = [pod for pod in created if not is_deleting(pod) and pods.revision(pod) == revision]
    nodes = [(slurm or {}).get(pods.slurm_name(pod)) for pod in held]
    shown = [set(slurm_conditions(node)) for node in nodes]

    def count(*states: str) -> int:
        return sum(any(names.SLURM_STATE_CONDITION + state in one for state in states) for one in shown)

    return {
        "desired": dig(nodeset, "spec", "replicas", default=1),
        "replicas": len(created),
        "updatedReplicas": len(updated),
        "readyReplicas": len(ready),
        "availableReplicas": len(available),
        "unavailableReplicas": len(created) - len(available),
        "slurmIdle": count("Idle"),
        "slurmAllocated": count("Allocated", "Mixed"),
        "slurmDown": count("Down"),
        "slurmDrain": count("Drain"),
        "observedGeneration": dig(nodeset, "metadata", "generation", default=0),
        "nodeSetHash": revision,
        "collisionCount": 0,
        "selector": worker.selector(nodeset),
        "ordinalToNode": {
            str(pods.ordinal(pod)): pods.host(pod) for pod in held if pods.host(pod) and not is_deleting(pod)
        },
    }
