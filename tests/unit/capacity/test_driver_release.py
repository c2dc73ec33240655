"""A pool that is released: once, twice, by an older incarnation, with workers that are busy."""

from __future__ import annotations

import pytest

from sparewheel.api.base import format_time
from sparewheel.api.names import (
    LABEL_POOL,
    LABEL_ROLE,
    TAINT_QUARANTINED,
    TAINT_SPARE,
)
from sparewheel.kube.port import (
    GPU_HOST,
    GPU_POOL,
    NODE,
    POD,
    UnavailableError,
)
from tests.support.driver_cluster import SPACE, Cluster

pytestmark = pytest.mark.looptime


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
