"""Driving a pool for Pulumi: who drives, what is waited for, what a release leaves. Virtual time, cluster in memory."""

from __future__ import annotations

import asyncio

import pytest

from sparewheel import __version__
from sparewheel.api.gpu_host import HostPhase
from sparewheel.api.gpu_pool import Driver
from sparewheel.api.names import (
    pool_lease,
)
from sparewheel.capacity.driver import read_spec
from sparewheel.capacity.port import CapacityError
from sparewheel.kube.lease import held
from sparewheel.kube.memory_faults import Verb
from sparewheel.kube.port import (
    GPU_HOST,
    GPU_POOL,
    NODE,
    NODE_SET,
    KubeError,
    Resource,
    TooManyRequestsError,
    UnavailableError,
)
from tests.support.driver_cluster import SPACE, TARGET, Cluster, spec

pytestmark = pytest.mark.looptime


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


async def test_read_is_gone_only_when_the_server_says_so(cluster: Cluster) -> None:
    assert (await read_spec(TARGET) or {})["size"] == 2
    cluster.kube.fail(UnavailableError("no answer"), "get", GPU_POOL)
    with pytest.raises(UnavailableError):
        await read_spec(TARGET)
    cluster.kube.drop(GPU_POOL, "gpu", SPACE)
    assert await read_spec(TARGET) is None
