"""``python -m bench.events``: reports of 10,000 nodes through the controller's own watches, queue and triage.

No API server and no network: only our own work for each event is measured. One report in twenty has a new mild fault.
"""

from __future__ import annotations

import asyncio
import time
from typing import Any, cast

from bench.processes import memory_mb
from bench.results import keep
from bench.scale.fleet import health_status, node_body, node_name, node_status, pool_body, pool_of, xid_79
from sparewheel.api.remediation import Remediation
from sparewheel.clock import SystemClock
from sparewheel.kube.informer import Informer
from sparewheel.kube.memory import MemoryKube
from sparewheel.kube.port import GPU_POOL, NODE, NODE_HEALTH, Json, Resource
from sparewheel.remediation.controller.queue import DueQueue, Key
from sparewheel.remediation.controller.scout import Scout
from sparewheel.remediation.controller.state import State
from sparewheel.remediation.controller.watches import Watches

NODES = 10_000
EVENTS = 200_000
BATCH = 500
"""As many come in at once before the queue has its turn."""
MILD_EVERY = 20


def report(index: int, number: int) -> Json:
    mild: Json = {**xid_79(), "code": "XID 31", "action": "record", "severity": "info", "count": number + 1}
    status = health_status(index, [mild] if number % MILD_EVERY == 0 else [])
    metadata = {"name": node_name(index), "resourceVersion": str(number)}
    return {"apiVersion": "sparewheel.dev/v1alpha1", "kind": "NodeHealth", "metadata": metadata, "status": status}


def no_incident(record: Remediation) -> None:
    raise AssertionError(f"{record.metadata.name}: a mild fault opened an incident")


async def measure(events: int = EVENTS) -> dict[str, float]:
    clock = SystemClock()
    state = State(MemoryKube(clock=clock), clock, "sparewheel")
    queue = DueQueue(clock)
    watches = Watches(state, lambda kind, name: queue.add(Key(kind, name)))
    scout = Scout(cast("Any", None), state, no_incident, lambda _kind, _name: None, list)

    async def look(key: Key) -> float | None:
        return await scout.triage(key.name) if key.kind == "node" else None

    running = asyncio.create_task(queue.run(look))
    feed = {informer.resource.plural: informer for informer in watches.informers}

    def put(resource: Resource, body: Json) -> None:
        put_into(feed[resource.plural], body)

    for name in sorted({pool_of(index) for index in range(NODES)}):
        put(GPU_POOL, pool_body(name))
    for index in range(NODES):
        put(NODE, {**node_body(index), "status": node_status(index)})
    reports = [report(number * 7919 % NODES, number) for number in range(events)]
    begin = time.perf_counter()
    for first in range(0, events, BATCH):
        for body in reports[first : first + BATCH]:
            put(NODE_HEALTH, body)
        while queue.keys:  # noqa: ASYNC110 - gives the queue its turns, without a pause
            await asyncio.sleep(0)
    seconds = time.perf_counter() - begin
    running.cancel()
    await asyncio.gather(running, return_exceptions=True)
    return {"events_per_second": events / seconds}


def put_into(informer: Informer, body: Json) -> None:
    """As the informer does with an event of its watch."""
    kept = body if informer.keep is None else informer.keep(body)
    informer.apply((str(body["metadata"].get("namespace") or ""), str(body["metadata"]["name"])), kept)


if __name__ == "__main__":
    import os

    found = asyncio.run(measure())
    keep(found)
    print(f"events_per_second {found['events_per_second']:.0f} (this process {memory_mb(os.getpid()):.0f} MB)")
