"""The running operator: watches, the queue of due looks, and which reconciler serves which kind."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Final

import httpx

from lab.standins.slinky import triggers
from lab.standins.slinky.context import Context
from lab.standins.slinky.kube import Access, Kube
from lab.standins.slinky.nodeset import actions
from lab.standins.slinky.nodeset import reconcile as nodeset
from lab.standins.slinky.objects import Obj, is_deleting
from lab.standins.slinky.queue import Key, Queue
from lab.standins.slinky.reconcilers import accounting, controller, loginset, restapi, token
from lab.standins.slinky.store import Store
from sparewheel.clock import Clock

WATCHED: Final = [
    "Controller",
    "NodeSet",
    "LoginSet",
    "RestApi",
    "Accounting",
    "Token",
    "Node",
    "Pod",
    "Secret",
    "ConfigMap",
    "Service",
    "StatefulSet",
    "Deployment",
    "PodDisruptionBudget",
]

Reconciler = Callable[[Context, Obj], Awaitable[float | None]]


async def run(access: Access, clock: Clock, *, slurmrestd_url: str = "") -> None:
    """Serve for ever. ``slurmrestd_url`` replaces the Service's address when run outside the cluster."""
    rechecks = actions.Rechecks()

    async def nodesets(ctx: Context, obj: Obj) -> float | None:
        return await nodeset.reconcile(ctx, obj, rechecks)

    reconcilers: dict[str, Reconciler] = {
        "Controller": controller.reconcile,
        "NodeSet": nodesets,
        "LoginSet": loginset.reconcile,
        "RestApi": restapi.reconcile,
        "Accounting": accounting.reconcile,
        "Token": token.reconcile,
    }
    async with Kube.connected(access) as kube, httpx.AsyncClient() as http:

        async def look(key: Key) -> float | None:
            obj = store.get(key.kind, key.namespace, key.name)
            if obj is None or is_deleting(obj):
                return None
            return await reconcilers[key.kind](ctx, obj)

        queue = Queue(look, clock)

        def changed(kind: str, before: Obj | None, after: Obj | None) -> None:
            for key in triggers.keys(store, kind, before, after):
                queue.add(key)

        store = Store(changed)
        ctx = Context(kube, store, clock, http, slurmrestd_url)
        async with asyncio.TaskGroup() as group:
            for kind in WATCHED:
                group.create_task(store.follow(kube, kind, clock))
            await store.synced(WATCHED)
            group.create_task(queue.run())
