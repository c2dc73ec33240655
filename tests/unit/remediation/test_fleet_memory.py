"""What ten thousand nodes take in the controller's caches: 200 MB are all it may have."""

from __future__ import annotations

import gc
import tracemalloc
from collections.abc import Iterator

import msgspec

from bench.scale.fleet import health_status, node_body, node_name, node_status, pool_of, worker_body
from sparewheel.api.names import GPU_RESOURCE, LABEL_POOL, NAMESPACE
from sparewheel.kube.informer import key_of
from sparewheel.kube.memory import MemoryKube
from sparewheel.kube.port import GPU_HOST, NODE, NODE_HEALTH, POD, Json, Resource
from sparewheel.remediation.controller.state import State
from sparewheel.remediation.controller.watches import Watches
from tests.support.clocks import StillClock

NODES = 1_000
TABLE_BYTES = 20_000
"""Tables, which grow by leaps, are left out."""
MOST_BYTES = 5_800
"""For a Node with its worker, report and host: 4,000 in a process of its own, 5,200 beside tests that made such objects
in another way; 6,800 when each cache had names, counts and tables of its own."""


def objects(index: int) -> Iterator[tuple[Resource, Json]]:
    name, metadata = node_name(index), {"uid": f"0a1b2c3d-aaaa-bbbb-cccc-{index:012d}", "resourceVersion": str(index)}
    for resource, body in (
        (NODE, {**node_body(index), "status": node_status(index)}),
        (POD, {**worker_body(index), "status": {"phase": "Running"}}),
        (NODE_HEALTH, {"metadata": {"name": name}, "status": health_status(index)}),
        (GPU_HOST, _host(index)),
    ):
        namespace = {"namespace": NAMESPACE} if resource.namespaced else {}
        yield resource, {**body, "metadata": {**body["metadata"], **metadata, **namespace}}


def _host(index: int) -> Json:
    name = node_name(index)
    spec = {"pool": pool_of(index), "host": name, "providerId": f"bench://{index}", "resources": {GPU_RESOURCE: 8}}
    status = {"phase": "Active", "nodeName": name, "since": "2026-12-01T00:00:00Z", "bootId": f"boot-{index}"}
    return {"metadata": {"name": name, "labels": {LABEL_POOL: pool_of(index)}}, "spec": spec, "status": status}


def put(watches: Watches, index: int) -> None:
    for resource, body in objects(index):
        informer = next(one for one in watches.informers if one.resource == resource)
        read = msgspec.json.decode(msgspec.json.encode(body))  # strings of its own, as an answer's
        informer.apply(key_of(read), read if informer.keep is None else informer.keep(read))


async def test_what_a_node_takes() -> None:
    clock = StillClock()
    state = State(MemoryKube(clock=clock), clock, NAMESPACE)
    watches = Watches(state, lambda _kind, _name: None)
    put(watches, NODES)  # what is made once
    gc.collect()
    tracemalloc.start()
    for index in range(NODES):
        put(watches, index)
    gc.collect()
    sizes = [trace.size for trace in tracemalloc.take_snapshot().traces]
    tracemalloc.stop()
    assert len(state.hosts) == len(state.healths) == len(state.nodes) == NODES + 1
    assert sum(size for size in sizes if size < TABLE_BYTES) / NODES < MOST_BYTES


async def test_a_host_is_as_it_was_but_for_what_is_read_afresh() -> None:
    clock = StillClock()
    state = State(MemoryKube(clock=clock), clock, NAMESPACE)
    watches = Watches(state, lambda _kind, _name: None)
    put(watches, 3)
    host = state.hosts[node_name(3)]
    assert (host.spec.pool, host.spec.host, host.status.node_name) == (pool_of(3), node_name(3), node_name(3))
    assert host.spec.host is host.status.node_name is state.nodes[node_name(3)].name
