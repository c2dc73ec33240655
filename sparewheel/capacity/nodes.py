"""Reading and changing Node objects: labels, taints, cordon. Lists are replaced whole, so every write is guarded."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import Any, Final, cast

from sparewheel.api.names import (
    LABEL_HOST,
    LABEL_POOL,
    LABEL_ROLE,
    SLINKY_NODE_CORDON_REASON,
    SLURM_REASON_PREFIX,
    SPARE_WARM,
    TAINT_SPARE,
)
from sparewheel.capacity.port import Taint
from sparewheel.kube.port import NODE, ConflictError, Json, Kube, NotFoundError

ATTEMPTS: Final = 6
PLACE: Final = frozenset((LABEL_POOL, LABEL_HOST, LABEL_ROLE))
POOL_CORDON: Final = f"{SLURM_REASON_PREFIX} leaves the pool"
"""Cordon reason when capacity, not an incident, takes a node out. Slinky shows it as Slurm's drain reason."""


async def find_node(kube: Kube, name: str) -> Json | None:
    """The Node, or None when the API server answered that there is none."""
    try:
        return await kube.get(NODE, name)
    except NotFoundError:
        return None


async def edit_node(kube: Kube, name: str, change: Callable[[Json], Json | None]) -> Json:
    """Read, let ``change`` make a merge patch from what is there (None: nothing to do), write; again on a conflict."""
    for attempt in range(ATTEMPTS):
        node = await kube.get(NODE, name)
        patch = change(node)
        if not patch:
            return node
        metadata = {**patch.get("metadata", {})}
        metadata["resourceVersion"] = node["metadata"]["resourceVersion"]
        metadata["uid"] = node["metadata"]["uid"]
        try:
            return await kube.merge_patch(NODE, name, {**patch, "metadata": metadata})
        except ConflictError:
            if attempt == ATTEMPTS - 1:
                raise
    raise AssertionError("unreachable")


async def delete_node(kube: Kube, name: str) -> None:
    """Delete the Node object as it is now, by uid: a machine that registers meanwhile is another object."""
    node = await find_node(kube, name)
    if node is None:
        return
    try:
        await kube.delete(NODE, name, uid=node["metadata"]["uid"])
    except (NotFoundError, ConflictError):
        return


def labels_of(node: Json) -> dict[str, str]:
    return cast("dict[str, str]", node["metadata"].get("labels") or {})


def annotations_of(node: Json) -> dict[str, str]:
    return cast("dict[str, str]", node["metadata"].get("annotations") or {})


def taints_of(node: Json) -> list[dict[str, str]]:
    return cast("list[dict[str, str]]", node.get("spec", {}).get("taints") or [])


def has_taint(node: Json, key: str) -> bool:
    return any(taint["key"] == key for taint in taints_of(node))


def briefly(node: Json) -> Json:
    """What a look at a whole pool reads: the Node's name, its place in the pool, its taints, its boot."""
    ours = {key: value for key, value in labels_of(node).items() if key in PLACE}
    return {
        "metadata": {"name": node["metadata"]["name"], "labels": ours},
        "spec": {"taints": taints_of(node)},
        "status": {"nodeInfo": {"bootID": boot_id_of(node)}},
    }


def is_ready(node: Json) -> bool:
    conditions = cast("list[dict[str, Any]]", node.get("status", {}).get("conditions") or [])
    return any(item["type"] == "Ready" and item["status"] == "True" for item in conditions)


def boot_id_of(node: Json) -> str:
    return str(node.get("status", {}).get("nodeInfo", {}).get("bootID") or "")


def allocatable_of(node: Json, resource: str) -> int:
    return int(node.get("status", {}).get("allocatable", {}).get(resource) or 0)


def capacity_of(node: Json) -> dict[str, int]:
    """Whole CPUs and extended resources (GPUs, HCAs) that the kubelet says the machine has.

    Memory and disk are left out: the kernel gives a little more or less of them at each boot of the same machine.
    """
    capacity = cast("dict[str, Any]", node.get("status", {}).get("capacity") or {})
    counted = {name: str(value) for name, value in capacity.items() if name == "cpu" or _is_extended(name)}
    return {name: int(value) for name, value in counted.items() if value.isdecimal()}


def _is_extended(name: str) -> bool:
    return "/" in name and not name.partition("/")[0].endswith("kubernetes.io")


def placing(
    labels: Mapping[str, str | None], add: Iterable[Taint] = (), remove: Sequence[str] = ()
) -> Callable[[Json], Json | None]:
    """A change for ``edit_node``: set labels (None removes one), add taints, remove taints by key."""

    def change(node: Json) -> Json | None:
        present = labels_of(node)
        patch: Json = {}
        differing = {key: value for key, value in labels.items() if present.get(key) != value}
        if differing:
            patch["metadata"] = {"labels": differing}
        before = taints_of(node)
        kept = [taint for taint in before if taint["key"] not in remove]
        for taint in add:
            if not any(item["key"] == taint.key and item["effect"] == taint.effect for item in kept):
                value = {"value": taint.value} if taint.value else {}
                kept.append({"key": taint.key, "effect": taint.effect, **value})
        if kept != before:
            patch["spec"] = {"taints": kept or None}
        return patch or None

    return change


def seating(node: Json) -> Json | None:
    """A change for ``edit_node``: the pool's workers may run on this spare. Nothing happens to one that is none now."""
    return _spare_taint(node, {"value": SPARE_WARM})


def unseating(node: Json) -> Json | None:
    """A change for ``edit_node``: no further worker may come to this spare; one that runs there runs on."""
    return _spare_taint(node, {})


def _spare_taint(node: Json, value: Mapping[str, str]) -> Json | None:
    before = taints_of(node)
    spare = {"key": TAINT_SPARE, "effect": "NoSchedule", **value}
    after = [spare if taint["key"] == TAINT_SPARE else taint for taint in before]
    return {"spec": {"taints": after}} if after != before else None


def cordoning(node: Json) -> Json | None:
    """Cordon for leaving the pool. Somebody else's cordon keeps its reason."""
    if node.get("spec", {}).get("unschedulable"):
        return None
    return {
        "metadata": {"annotations": {SLINKY_NODE_CORDON_REASON: POOL_CORDON}},
        "spec": {"unschedulable": True},
    }


def uncordoning(node: Json) -> Json | None:
    """Take back our own cordon, and only that."""
    if annotations_of(node).get(SLINKY_NODE_CORDON_REASON) != POOL_CORDON:
        return None
    return {
        "metadata": {"annotations": {SLINKY_NODE_CORDON_REASON: None}},
        "spec": {"unschedulable": None},
    }


async def nodes_of(kube: Kube, pool: str, names: Collection[str]) -> dict[str, Json]:
    """The pool's Nodes, and each of ``names`` that there is: a Node that lost its label is still there."""
    labelled = await kube.list(NODE, label_selector={LABEL_POOL: pool}, keep=briefly)
    found = {str(node["metadata"]["name"]): node for node in labelled.items}
    for name in sorted(set(names) - found.keys()):
        try:
            found[name] = await kube.get(NODE, name)
        except NotFoundError:
            continue
    return found
