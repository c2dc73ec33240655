"""Crusoe's VMs as hosts: stock that runs out, pools that grow, other people's changes, secrets."""

from __future__ import annotations

import logging
from typing import Any

import pytest

from lab.standins.crusoe.trouble import Fault
from sparewheel.api.gpu_pool import CrusoeBackend
from sparewheel.api.names import NAMESPACE, TAINT_QUARANTINED
from sparewheel.capacity.nodes import has_taint
from sparewheel.capacity.port import CapacityError, Proof, UnreachableError
from sparewheel.capacity.providers import provider_for
from sparewheel.kube.port import NODE, SECRET
from tests.support.crusoe_scene import RESERVED, Scene, joining
from tests.support.crusoe_yard import (
    CREDENTIALS,
    H100,
)
from tests.support.yard import pool_of

# ---------------------------------------------------------------------- VMs


async def test_hosts_are_all_vms_with_what_is_known_of_them(scene: Scene) -> None:
    pool = scene.yard.pool(3)
    vm = scene.yard.cloud.members(pool)[0]
    vm.pod_id = "pod-7"
    scene.yard.cloud.members(pool)[2].state = "STATE_DELETING"
    hosts = await scene.provider(pool, 3, node_name="{name}.{location}.compute.internal").list_hosts()
    assert [host.host for host in hosts] == [f"gpu-{n}.us-east1-a.compute.internal" for n in (1, 2)]
    assert (hosts[0].provider_id, hosts[0].instance_type, hosts[0].fabric_block) == (f"crusoe://{vm.id}", H100, "pod-7")


async def test_a_stopped_vm_without_stock_is_no_spare_and_says_why(scene: Scene) -> None:
    pool = scene.yard.pool(1)
    provider = scene.provider(pool, 1)
    assert await provider.prove_off("gpu-1", power_off=True) is Proof.OFF
    scene.yard.cloud.stock[H100] = 0
    with pytest.raises(UnreachableError, match=r"START of VM gpu-1: Crusoe is out of stock"):
        await provider.power_on("gpu-1")
    scene.yard.cloud.stock[H100] = 1
    await provider.power_on("gpu-1")
    assert await provider.prove_off("gpu-1", power_off=False) is Proof.ON


async def test_a_vm_that_is_busy_for_long_is_waited_for(scene: Scene) -> None:
    scene.yard.cloud.play.operation_seconds = 1e9
    pool = scene.yard.pool(1)
    (vm,) = scene.yard.cloud.members(pool)
    scene.yard.cloud.begin(vm.id, dict)
    with pytest.raises(UnreachableError, match="RESET of VM gpu-1: 409 another operation"):
        await scene.provider(pool, 1).reboot("gpu-1")


async def test_a_vm_whose_node_has_not_registered_is_waited_for(scene: Scene) -> None:
    pool = scene.yard.pool(1)
    await scene.kube.delete(NODE, "gpu-1")
    with pytest.raises(UnreachableError, match="has not registered yet"):
        await scene.provider(pool, 1).join(joining("gpu-1"))


async def test_a_bad_vm_is_kept_switched_off(scene: Scene) -> None:
    pool = scene.yard.pool(2)
    provider = scene.provider(pool, 2)
    await provider.quarantine("gpu-1", "XID 79")
    assert has_taint(scene.node("gpu-1"), TAINT_QUARANTINED)
    assert await provider.prove_off("gpu-1", power_off=False) is Proof.OFF


async def test_a_bad_vm_that_is_deleted_has_a_successor(scene: Scene) -> None:
    pool = scene.yard.pool(2)
    provider = scene.provider(pool, 2, bad_vm="delete")
    await provider.quarantine("gpu-1", "XID 79")
    assert [host.host for host in await provider.list_hosts()] == ["gpu-2"]
    scene.later(30)
    assert [host.host for host in await provider.list_hosts()] == ["gpu-2", "gpu-3"]


async def test_a_pool_that_grew_shrinks_with_the_bad_vm(scene: Scene) -> None:
    pool = scene.yard.pool(2, stock=1)
    scene.reserve(4)
    provider = scene.provider(pool, 2, bad_vm="delete", **RESERVED)
    await provider.find_more(1)
    await provider.quarantine("gpu-1", "XID 79")
    scene.later(60)
    assert pool.count == 2
    assert [host.host for host in await provider.list_hosts()] == ["gpu-2", "gpu-3"]


async def test_a_bad_vm_stays_where_its_successor_would_join_untainted(
    scene: Scene, caplog: pytest.LogCaptureFixture
) -> None:
    pool = scene.yard.pool(1, taints=[])
    provider = scene.provider(pool, 1, bad_vm="delete")
    with caplog.at_level(logging.WARNING):
        await provider.quarantine("gpu-1", "XID 79")
    assert "stopped, not deleted" in caplog.text
    assert await provider.prove_off("gpu-1", power_off=False) is Proof.OFF


async def test_a_vm_that_went_meanwhile_proves_nothing(scene: Scene) -> None:
    pool = scene.yard.pool(1)
    provider = scene.provider(pool, 1)
    scene.yard.cloud.vms.clear()
    assert await provider.prove_off("gpu-1", power_off=True) is Proof.UNKNOWN


# ---------------------------------------------------------------------- more VMs


async def test_a_pool_grows_from_its_reservation_once(scene: Scene) -> None:
    pool = scene.yard.pool(2, stock=3)
    scene.reserve(4)
    provider = scene.provider(pool, 2, **RESERVED)
    assert await provider.find_more(1) == "node pool gpu: 1 VM(s) more asked for"
    assert [host.host for host in await provider.list_hosts()] == ["gpu-1", "gpu-2", "gpu-3"]
    assert "max_extra" in await provider.find_more(1)
    assert pool.count == 3


@pytest.mark.parametrize(
    ("setting", "fallback", "free", "why"),
    [
        ({}, True, 4, "names no reservation"),
        (RESERVED, False, 4, "fallback_to_project_reservations is off"),
        (RESERVED, True, 0, "has 0 free of 8"),
    ],
)
async def test_a_pool_does_not_grow_where_it_may_not(
    scene: Scene, setting: dict[str, Any], fallback: bool, free: int, why: str
) -> None:
    pool = scene.yard.pool(2, stock=3)
    scene.yard.auto("OFF", fallback=fallback)
    scene.reserve(free)
    assert why in await scene.provider(pool, 2, **setting).find_more(1)
    assert scene.changes() == []


async def test_a_pool_whose_vms_would_join_untainted_does_not_grow(scene: Scene) -> None:
    pool = scene.yard.pool(2, stock=3, taints=[])
    scene.reserve(4)
    assert "node_taints" in await scene.provider(pool, 2, **RESERVED).find_more(1)
    assert pool.count == 2


async def test_out_of_stock_is_told_and_asked_for_again_after_a_while(scene: Scene) -> None:
    pool = scene.yard.pool(2)
    scene.reserve(4)
    provider = scene.provider(pool, 2, **RESERVED)
    assert "1 VM(s) more asked for, but Out of Stock" in await provider.find_more(1)
    assert await provider.find_more(1) == "node pool gpu: 1 VM(s) on the way"
    assert len(scene.changes()) == 1
    scene.yard.cloud.stock[H100] = 1
    scene.later(61)
    assert await provider.find_more(1) == "node pool gpu: 1 VM(s) more asked for"
    assert (pool.count, len(await provider.list_hosts())) == (3, 3)


async def test_out_of_stock_as_a_refusal_is_a_reason_too(scene: Scene) -> None:
    pool = scene.yard.pool(2)
    scene.reserve(4)
    scene.yard.server.trouble.faults.append(Fault("PATCH", 400, message="Out of Stock"))
    assert "out of stock" in await scene.provider(pool, 2, **RESERVED).find_more(1)


async def test_a_count_that_others_raised_is_not_raised_again(scene: Scene) -> None:
    pool = scene.yard.pool(2)
    scene.reserve(4)

    def another_writer() -> None:
        pool.count = 3
        scene.yard.cloud.touch(pool)

    another_writer()
    assert await scene.provider(pool, 2, **RESERVED).find_more(1) == "node pool gpu: 1 VM(s) on the way"
    assert scene.changes() == []


# ---------------------------------------------------------------------- secrets


async def test_the_key_comes_from_the_secret_and_goes_nowhere_else(
    scene: Scene, caplog: pytest.LogCaptureFixture
) -> None:
    made = scene.yard.pool(1)
    backend = scene.yard.backend(made)
    assert isinstance(backend, CrusoeBackend)
    pool = pool_of(scene.kube, 1, backend=backend.model_dump(mode="json", by_alias=True))
    with pytest.raises(CapacityError, match=r"Secret .*/keys, key crusoe is missing; it holds Crusoe's secret key"):
        await provider_for(scene.kube, pool, scene.yard.clock)
    data = {"crusoe": "SHJiWjNWVFViMllOQXE1M01kMUVzQQ=="}
    scene.kube.put(SECRET, {"metadata": {"name": "keys"}, "data": data}, NAMESPACE)
    provider = await provider_for(scene.kube, pool, scene.yard.clock)
    with caplog.at_level(logging.DEBUG):
        assert [host.host for host in await provider.list_hosts()] == ["gpu-1"]
        scene.yard.server.down = True
        with pytest.raises(UnreachableError) as caught:
            await provider.reboot("gpu-1")
    for text in (caplog.text, str(caught.value), repr(provider)):
        assert CREDENTIALS.secret_key not in text


async def test_vms_are_asked_for_again_though_crusoe_s_clock_is_far_ahead_of_ours(scene: Scene) -> None:
    pool = scene.yard.pool(2)
    scene.reserve(4)
    provider = scene.provider(pool, 2, **RESERVED)
    await provider.find_more(1)
    scene.later(-3600)
    assert "1 VM(s) more asked for" in await provider.find_more(1)
