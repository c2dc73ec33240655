"""Driving a pool for Pulumi: who drives, what is waited for, what a release leaves. Virtual time, cluster in memory."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any, cast

import pytest

from sparewheel import __version__
from sparewheel.api.base import format_time
from sparewheel.api.gpu_host import HostPhase
from sparewheel.api.gpu_pool import Driver, GpuPool, GpuPoolSpec, NodeSetRef, WarmBackend
from sparewheel.api.names import (
    ANNOTATION_INCARNATION,
    LABEL_POOL,
    LABEL_ROLE,
    TAINT_QUARANTINED,
    TAINT_SPARE,
    pool_lease,
)
from sparewheel.capacity import driver
from sparewheel.capacity.driver import Target, drive_pool, read_spec, release_pool
from sparewheel.capacity.port import CapacityError
from sparewheel.kube.lease import held
from sparewheel.kube.memory import MemoryKube
from sparewheel.kube.memory_faults import Call, Verb
from sparewheel.kube.port import (
    GPU_HOST,
    GPU_POOL,
    NODE,
    NODE_HEALTH,
    NODE_SET,
    POD,
    Kube,
    KubeError,
    Resource,
    TooManyRequestsError,
    UnavailableError,
)
from tests.support.clocks import LoopClock

pytestmark = pytest.mark.looptime

SPACE = "sparewheel"
TARGET = Target("no kubeconfig", SPACE, "gpu")


def spec(**changes: Any) -> GpuPoolSpec:
    plain = GpuPoolSpec(
        size=2,
        spares=1,
        backend=WarmBackend(node_selector={"class": "h200"}),
        node_set_ref=NodeSetRef(namespace="slurm", name="gpu"),
        drain_deadline_seconds=20,
    )
    return plain.model_copy(update=changes)


class Cluster:
    """Three nodes with healthy agents, a pool, a NodeSet whose workers follow the active nodes."""

    def __init__(self, nodes: int = 3) -> None:
        self.clock = LoopClock()
        self.kube = MemoryKube(self.clock)
        self.said: list[str] = []
        for number in range(1, nodes + 1):
            self.node(f"n{number}")
        self.pool(spec())
        self.kube.put(NODE_SET, {"metadata": {"name": "gpu", "namespace": "slurm"}, "spec": {}})
        self.kube.after = self.operator
        self.operating = True

    def operator(self, call: Call) -> None:
        """A worker gets ready on each node that gets active."""
        if not (self.operating and call.resource == NODE and call.writes):
            return
        for name in ("n1", "n2", "n3"):
            node = self.kube.peek(NODE, name) or {"metadata": {}}
            if cast("dict[str, str]", node["metadata"].get("labels") or {}).get(LABEL_ROLE) == "active":
                self.worker(name)

    def worker(self, node: str) -> None:
        labels = {"app.kubernetes.io/name": "slurmd", "app.kubernetes.io/instance": "gpu"}
        status = {
            "conditions": [{"type": "Ready", "status": "True"}, {"type": "SlurmNodeStateDrain", "status": "True"}]
        }
        pod = {
            "metadata": {"name": f"worker-{node}", "namespace": "slurm", "labels": labels},
            "spec": {"nodeName": node},
            "status": status,
        }
        self.kube.put(POD, pod)

    def node(self, name: str) -> None:
        status = {
            "nodeInfo": {"bootID": f"boot-{name}"},
            "conditions": [{"type": "Ready", "status": "True"}],
            "allocatable": {"nvidia.com/gpu": "8"},
        }
        self.kube.put(NODE, {"metadata": {"name": name, "labels": {"class": "h200"}}, "spec": {}, "status": status})

    def beat(self) -> None:
        """Every agent reports now."""
        for name in ("n1", "n2", "n3"):
            status = {
                "bootId": f"boot-{name}",
                "heartbeatTime": format_time(self.clock.now()),
                "gpus": {"expected": 8, "seen": 8},
            }
            self.kube.put(NODE_HEALTH, {"metadata": {"name": name}, "spec": {}, "status": status})

    async def beat_on(self) -> None:
        while True:
            self.beat()
            await self.clock.sleep(5)

    def pool(self, wanted: GpuPoolSpec, generation: int = 1) -> None:
        body = GpuPool(spec=wanted).to_wire()
        body["metadata"] = {"name": "gpu", "namespace": SPACE, "generation": generation, "uid": "pool-uid"}
        self.kube.put(GPU_POOL, body)

    async def drive(self, wanted: GpuPoolSpec | None = None, deadline_seconds: float = 60) -> None:
        await drive_pool(TARGET, wanted or spec(), "one", deadline_seconds, self.said.append, self.clock)

    async def release(self, incarnation: str = "one") -> None:
        await release_pool(TARGET, incarnation, 120, self.said.append, self.clock)

    async def settle(self) -> None:
        """What another driver leaves when the pool is as asked."""
        for name in ("n1", "n2"):
            labels = {LABEL_POOL: "gpu", LABEL_ROLE: "active"}
            await self.kube.merge_patch(NODE, name, {"metadata": {"labels": labels}})
        generation = (await self.kube.get(GPU_POOL, "gpu", SPACE))["metadata"]["generation"]
        status = {"observedGeneration": generation, "active": 2}
        await self.kube.merge_patch(GPU_POOL, "gpu", {"status": status}, SPACE, "status")

    def phases(self) -> dict[str, str]:
        found: dict[str, str] = {}
        for number in (1, 2, 3):
            host = self.kube.peek(GPU_HOST, f"n{number}", SPACE)
            found[f"n{number}"] = host["status"]["phase"] if host else "none"
        return found

    def labels(self, node: str) -> dict[str, str]:
        body = self.kube.peek(NODE, node)
        assert body is not None
        return cast("dict[str, str]", body["metadata"].get("labels") or {})

    def taints(self, node: str) -> set[str]:
        body = self.kube.peek(NODE, node)
        assert body is not None
        return {taint["key"] for taint in cast("list[dict[str, str]]", body["spec"].get("taints") or [])}

    def annotation(self) -> str | None:
        body = self.kube.peek(GPU_POOL, "gpu", SPACE)
        assert body is not None
        return cast("dict[str, str]", body["metadata"].get("annotations") or {}).get(ANNOTATION_INCARNATION)


@pytest.fixture
async def cluster(monkeypatch: pytest.MonkeyPatch) -> Cluster:
    cluster = Cluster()

    @asynccontextmanager
    async def connected(_: Target) -> AsyncIterator[Kube]:
        beating = asyncio.create_task(cluster.beat_on())
        try:
            yield cluster.kube
        finally:
            beating.cancel()

    monkeypatch.setattr(driver, "_cluster", connected)
    return cluster


async def test_a_pool_is_brought_to_its_size(cluster: Cluster) -> None:
    await cluster.drive()
    assert sorted(cluster.phases().values()) == ["Active", "Active", "Spare"]
    assert cluster.annotation() == "one"
    assert cluster.said[-1] == "2 of 2 workers are ready"


async def test_driving_twice_changes_nothing(cluster: Cluster) -> None:
    await cluster.drive()
    before = cluster.phases()
    await cluster.drive()
    assert cluster.phases() == before


async def test_a_pool_that_asks_for_too_much_fails_at_once_and_says_how_many(cluster: Cluster) -> None:
    cluster.pool(spec(size=5))
    with pytest.raises(CapacityError, match="asks for 5 nodes"):
        await cluster.drive(spec(size=5))
    assert cluster.clock.monotonic_seconds() < 30


async def test_a_pool_changed_in_the_cluster_is_not_driven(cluster: Cluster) -> None:
    cluster.pool(spec(size=3))
    with pytest.raises(CapacityError, match="pulumi refresh"):
        await cluster.drive()
    assert cluster.phases() == {"n1": "none", "n2": "none", "n3": "none"}


async def test_the_deadline_names_what_is_waited_for(cluster: Cluster) -> None:
    cluster.operating = False
    cluster.worker("n1")
    with pytest.raises(CapacityError, match=r"after 60 s, last: 1 of 2 workers are ready.*run it again"):
        await cluster.drive()


async def test_without_a_node_set_it_says_so(cluster: Cluster) -> None:
    cluster.kube.drop(NODE_SET, "gpu", "slurm")
    with pytest.raises(CapacityError, match="NodeSet slurm/gpu isn't there"):
        await cluster.drive()


@pytest.mark.parametrize(
    ("error", "verb", "resource"),
    [
        (UnavailableError("no answer"), "list", NODE),
        (TooManyRequestsError("429 storage is (re)initializing"), "list", GPU_HOST),
        (TooManyRequestsError("429 storage is (re)initializing"), "get", GPU_POOL),
    ],
    ids=["away", "kinds just made", "pool's kind just made"],
)
async def test_an_api_server_that_is_away_or_busy_for_a_moment_is_waited_for(
    cluster: Cluster, error: KubeError, verb: Verb, resource: Resource
) -> None:
    cluster.kube.fail(error, verb, resource, times=3)
    await cluster.drive()
    assert any("trying again" in line for line in cluster.said)


async def test_whoever_holds_the_lease_drives_and_we_see_it_done(cluster: Cluster) -> None:
    """A controller of another version heals; `up` neither drives beside it nor fails."""
    async with held(cluster.kube, pool_lease("gpu"), SPACE, "controller-0", cluster.clock, version="9.9.9"):
        up = asyncio.create_task(cluster.drive())
        await cluster.clock.sleep(5)
        assert not up.done()
        assert cluster.phases() == {"n1": "none", "n2": "none", "n3": "none"}
        await cluster.settle()
        await up
    assert any("controller-0 of version 9.9.9 drives" in line for line in cluster.said)
    assert __version__ != "9.9.9"


async def test_with_driver_controller_we_ask_and_wait_only(cluster: Cluster) -> None:
    wanted = spec(driver=Driver.CONTROLLER)
    cluster.pool(wanted)
    up = asyncio.create_task(cluster.drive(wanted))
    await cluster.clock.sleep(10)
    assert cluster.phases() == {"n1": "none", "n2": "none", "n3": "none"}
    await cluster.settle()
    await up


async def test_a_pause_left_by_a_cut_destroy_ends(cluster: Cluster) -> None:
    cluster.pool(spec(paused=True))
    await cluster.drive()
    assert HostPhase.ACTIVE in cluster.phases().values()


async def test_release_gives_the_machines_back(cluster: Cluster) -> None:
    await cluster.drive()
    await cluster.release()
    assert cluster.phases() == {"n1": "none", "n2": "none", "n3": "none"}
    for name in ("n1", "n2", "n3"):
        assert LABEL_POOL not in cluster.labels(name)
        assert LABEL_ROLE not in cluster.labels(name)
        assert TAINT_SPARE in cluster.taints(name)


async def test_release_twice_is_as_good_as_once(cluster: Cluster) -> None:
    await cluster.drive()
    await cluster.release()
    await cluster.release()


async def test_an_older_incarnation_releases_nothing(cluster: Cluster) -> None:
    """A forced replacement runs create, then delete, on the same name."""
    await cluster.drive()
    await cluster.release("older")
    assert sorted(cluster.phases().values()) == ["Active", "Active", "Spare"]


async def test_releasing_a_pool_that_is_gone_is_nothing_to_do(cluster: Cluster) -> None:
    cluster.kube.drop(GPU_POOL, "gpu", SPACE)
    await cluster.release()
    assert "nothing to release" in cluster.said[-1]


async def test_a_failed_look_up_is_not_a_pool_that_is_gone(cluster: Cluster) -> None:
    await cluster.drive()
    cluster.kube.fail(UnavailableError("no answer"), "get", GPU_POOL)
    with pytest.raises(UnavailableError):
        await cluster.release()
    assert sorted(cluster.phases().values()) == ["Active", "Active", "Spare"]


async def test_a_busy_worker_is_waited_for_until_the_drain_deadline(cluster: Cluster) -> None:
    await cluster.drive()
    active = next(name for name, phase in cluster.phases().items() if phase == "Active")
    pod = {"metadata": {"name": "gpu-0", "namespace": "slurm"}, "spec": {"nodeName": active}}
    cluster.kube.put(POD, pod)
    cluster.kube.blocked_evictions.add(("slurm", "gpu-0"))
    started = cluster.clock.monotonic_seconds()
    await cluster.release()
    assert 20 <= cluster.clock.monotonic_seconds() - started < 25
    assert any("at the drain deadline" in line for line in cluster.said)


async def test_a_pod_of_which_nothing_runs_is_not_waited_for(cluster: Cluster) -> None:
    """Its object stays until kubelet has unmounted its disks, a minute at worst; the node may leave before."""
    await cluster.drive()
    active = next(name for name, phase in cluster.phases().items() if phase == "Active")
    ended = [{"name": "a", "state": {"terminated": {"exitCode": 0}}}]
    metadata = {"name": "gone", "namespace": "slurm", "deletionTimestamp": format_time(cluster.clock.now())}
    cluster.kube.put(POD, {"metadata": metadata, "spec": {"nodeName": active}, "status": {"containerStatuses": ended}})
    started = cluster.clock.monotonic_seconds()
    await cluster.release()
    assert cluster.clock.monotonic_seconds() - started < 10


async def test_a_bad_node_is_not_given_back(cluster: Cluster) -> None:
    await cluster.drive()
    host = cluster.kube.peek(GPU_HOST, "n3", SPACE)
    assert host is not None
    host["status"]["phase"] = "Quarantined"
    cluster.kube.put(GPU_HOST, host)
    node = cluster.kube.peek(NODE, "n3")
    assert node is not None
    node["spec"]["taints"] = [{"key": TAINT_QUARANTINED, "effect": "NoSchedule"}]
    cluster.kube.put(NODE, node)
    await cluster.release()
    assert cluster.taints("n3") == {TAINT_QUARANTINED}


async def test_read_is_gone_only_when_the_server_says_so(cluster: Cluster) -> None:
    assert (await read_spec(TARGET) or {})["size"] == 2
    cluster.kube.fail(UnavailableError("no answer"), "get", GPU_POOL)
    with pytest.raises(UnavailableError):
        await read_spec(TARGET)
    cluster.kube.drop(GPU_POOL, "gpu", SPACE)
    assert await read_spec(TARGET) is None
