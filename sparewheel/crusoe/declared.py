"""Brings a node pool, and a cluster's AutoClusters configuration, to what is declared of them. Safe to repeat.

Names are not unique at Crusoe and creating knows no idempotency key: a pool that we made carries a label of ours, so
one whose creation's answer was lost is found again, and one that others made is never taken over.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import msgspec

from sparewheel.crusoe.client import CrusoeClient
from sparewheel.crusoe.errors import CrusoeError, NotFoundError, OutOfStockError
from sparewheel.crusoe.wire import DETECT_ONLY, GONE_STATES, AutoClusters, NodePool, NodeTaint, shortfall

LABEL_DECLARED: Final = "sparewheel.dev/declared"
"""On every node of a pool that a stack made; its value on the pool is the incarnation that the pool belongs to."""


class Wanted(msgspec.Struct, frozen=True):
    """A node pool as declared. ``count`` is where it starts: healing may raise it for a while."""

    name: str
    cluster_id: str
    product_name: str
    count: int
    node_labels: Mapping[str, str] = {}
    node_taints: tuple[NodeTaint, ...] = ()
    incarnation: str = "stack"
    settings: Mapping[str, Any] = {}
    """What only creation takes, under the API's own names: ``subnet_id``, ``reservation_specification``, ..."""

    @property
    def labels(self) -> dict[str, str]:
        return {**self.node_labels, LABEL_DECLARED: self.incarnation}


async def ensure_pool(api: CrusoeClient, wanted: Wanted, pool_id: str = "") -> str:
    """Make the pool, or change it to what is wanted; its id. Fewer VMs than wanted is an error that says why."""
    pool = await api.pool(pool_id) if pool_id else await _ours(api, wanted)
    short = ""
    if pool is None:
        body = {
            **wanted.settings,
            "name": wanted.name,
            "cluster_id": wanted.cluster_id,
            "product_name": wanted.product_name,
            "count": wanted.count,
            "node_labels": wanted.labels,
            "node_taints": [msgspec.to_builtins(taint) for taint in wanted.node_taints],
        }
        operation = await api.create_pool(wanted.name, body)
        pool = await _ours(api, wanted)
        if pool is None:
            raise CrusoeError(f"node pool {wanted.name} was made but is not listed; run it again")
        short = shortfall(operation)
    else:
        changes = _changes(pool, wanted)
        if changes:
            operation = await api.change_pool(pool, changes)
            short = shortfall(operation)
    there = len(await api.pool_vms(pool.id))
    if there < wanted.count:
        text = f"node pool {wanted.name} has {there} of {wanted.count} VMs: {short or 'no reason given'}"
        raise OutOfStockError(f"{text}; run it again when there is capacity, or ask for fewer")
    return pool.id


async def read_pool(api: CrusoeClient, pool_id: str) -> NodePool | None:
    """None only when the API answered that there is none, or that it is deleted."""
    try:
        pool = await api.pool(pool_id)
    except NotFoundError:
        return None
    return None if pool.status in GONE_STATES else pool


async def remove_pool(api: CrusoeClient, pool_id: str, incarnation: str) -> None:
    """Its VMs go with it. One that others made is left; one that is gone already is done.

    One of another incarnation is left, too: a forced replacement creates first and deletes afterwards.
    """
    pool = await read_pool(api, pool_id)
    if pool is None:
        return
    if LABEL_DECLARED not in (pool.node_labels or {}):
        raise CrusoeError(f"node pool {pool.name} lacks the label {LABEL_DECLARED}, so it is left; delete it by hand")
    if (pool.node_labels or {})[LABEL_DECLARED] != incarnation:
        return
    await api.delete_pool(pool)
    if await read_pool(api, pool_id) is not None:
        raise CrusoeError(f"node pool {pool.name} is still there after it was deleted; run it again")


async def ensure_healer(api: CrusoeClient, cluster_id: str, *, ours: bool, fallback: bool | None) -> list[str]:
    """One healer for the cluster. ``ours``: AutoClusters changes nothing. Returns the issues that we switched off.

    Not ours: what was switched off by an override acts again as Crusoe has it by default.
    """
    auto = await api.auto_clusters(cluster_id)
    if auto is None:
        if ours and fallback is None:
            return []
        raise CrusoeError(f"cluster {cluster_id} has no AutoClusters configuration; it may be too old, see its version")
    switched = auto.acting if ours else _switched_off(auto)
    body: dict[str, Any] = {}
    if ours and switched:
        body["set_remediation_overrides"] = [{"issue_name": name, "action": "OFF"} for name in switched]
    elif switched:
        body["remove_remediation_overrides"] = switched
    if fallback is not None and auto.fallback_to_project_reservations is not fallback:
        body["fallback_to_project_reservations"] = fallback
    if body:
        now = await api.change_auto_clusters(cluster_id, body)
        if ours and now.acting:
            raise CrusoeError(f"cluster {cluster_id}: AutoClusters still acts on {now.acting}; set them OFF by hand")
    return switched if ours else []


def _switched_off(auto: AutoClusters) -> list[str]:
    return sorted(
        row.issue_name for row in auto.remediation_configs if (row.user_override or "").upper() in DETECT_ONLY
    )


async def _ours(api: CrusoeClient, wanted: Wanted) -> NodePool | None:
    named = [
        pool
        for pool in await api.pools(wanted.cluster_id)
        if pool.name == wanted.name and pool.status not in GONE_STATES
    ]
    for pool in named:
        if LABEL_DECLARED not in (pool.node_labels or {}):
            raise CrusoeError(
                f"cluster {wanted.cluster_id} has a node pool {wanted.name} that no stack made; use another name"
            )
        if pool.type != wanted.product_name:
            raise CrusoeError(
                f"node pool {wanted.name} is there with type {pool.type}, not {wanted.product_name}; use another name"
            )
    if len(named) > 1:
        raise CrusoeError(f"cluster {wanted.cluster_id} has {len(named)} node pools {wanted.name}; delete all but one")
    return named[0] if named else None


def _changes(pool: NodePool, wanted: Wanted) -> dict[str, Any]:
    """Only what differs is sent: whatever a PATCH leaves out stays as it is. A count that is higher isn't lowered:
    healing may have raised it, and lowering deletes nothing. VMs that are missing are asked for again."""
    changes: dict[str, Any] = {}
    if min(pool.count, len(pool.instance_ids or [])) < wanted.count:
        changes["count"] = max(pool.count, wanted.count)
    if (pool.node_labels or {}) != wanted.labels:
        changes["node_labels"] = wanted.labels
    if _sorted(pool.node_taints or []) != _sorted(wanted.node_taints):
        changes["node_taints"] = [msgspec.to_builtins(taint) for taint in wanted.node_taints]
    return changes


def _sorted(taints: Any) -> list[tuple[str, str, str]]:
    return sorted((taint.key, taint.effect, taint.value or "") for taint in taints)
