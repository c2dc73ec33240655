"""Crusoe's VMs as hosts: one healer per node, stock that runs out, pools that grow, other people's changes."""

from __future__ import annotations

import logging
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass
from typing import Any

import pytest

from lab.standins.crusoe.cloud import Play, Pool
from lab.standins.crusoe.trouble import Fault
from sparewheel.api.gpu_pool import CrusoeBackend
from sparewheel.api.names import LABEL_POOL, NAMESPACE, TAINT_JOINING, TAINT_QUARANTINED
from sparewheel.capacity.backends.crusoe import CrusoeProvider
from sparewheel.capacity.nodes import has_taint
from sparewheel.capacity.port import CapacityError, JoinRequest, Proof, Taint, UnreachableError
from sparewheel.capacity.providers import provider_for
from sparewheel.kube.memory import MemoryKube
from sparewheel.kube.port import NODE, SECRET, Json
from tests.support.crusoe_yard import (
    CLUSTER,
    CREDENTIALS,
    H100,
    ORGANIZATION,
    RESERVATION,
    CrusoeYard,
    crusoe_yard,
)
from tests.support.yard import pool_of

RESERVED = {"reservation": {"organization_id": ORGANIZATION, "reservation_id": RESERVATION}}


@dataclass
class Scene:
    yard: CrusoeYard
    kube: MemoryKube

    def provider(self, pool: Pool, wanted: int, **more: Any) -> CrusoeProvider:
        return CrusoeProvider(
            self.yard.backend(pool, **more), self.kube, self.yard.clock, CREDENTIALS.secret_key, wanted
        )

    def reserve(self, free: int) -> None:
        found = {"organization": ORGANIZATION, "id": RESERVATION, "quantity": 8, "used_quantity": 8 - free}
        self.yard.cloud.reservations[RESERVATION] = found

    def node(self, name: str) -> Json:
        node = self.kube.peek(NODE, name)
        assert node is not None
        return node

    def later(self, seconds: float) -> None:
        self.yard.clock.seconds += seconds
        self.yard.cloud.settle()

    def changes(self) -> list[str]:
        return [line for line in self.yard.server.seen if not line.startswith("GET")]


@pytest.fixture
async def scene() -> AsyncIterator[Scene]:
    async with crusoe_yard(Play(page_size=2)) as yard:
        kube = MemoryKube()
        yard.nodes_in(kube)
        yield Scene(yard, kube)


def joining(host: str) -> JoinRequest:
    return JoinRequest(host, host, {LABEL_POOL: "gpu"}, [Taint(TAINT_JOINING)])


# ---------------------------------------------------------------------- one healer


@pytest.mark.parametrize("effect", ["list_hosts", "power_on", "join", "reboot", "leave", "quarantine", "find_more"])
async def test_where_auto_clusters_acts_we_refuse(scene: Scene, effect: str) -> None:
    pool = scene.yard.pool(2, stock=1)
    scene.yard.auto("REPLACE_NODE")
    scene.reserve(4)
    provider, before = scene.provider(pool, 2, **RESERVED), scene.node("gpu-1")
    attempts: dict[str, Callable[[], Awaitable[object]]] = {
        "list_hosts": provider.list_hosts,
        "power_on": lambda: provider.power_on("gpu-1"),
        "join": lambda: provider.join(joining("gpu-1")),
        "reboot": lambda: provider.reboot("gpu-1"),
        "leave": lambda: provider.leave("gpu-1"),
        "quarantine": lambda: provider.quarantine("gpu-1", "XID 79"),
        "find_more": lambda: provider.find_more(1),
    }
    with pytest.raises(CapacityError, match=rf"{CLUSTER}: AutoClusters acts on XID_79.*one healer.*to OFF"):
        await attempts[effect]()
    assert scene.changes() == []
    assert scene.node("gpu-1") == before
    assert await provider.prove_off("gpu-1", power_off=True) is Proof.UNKNOWN
    assert [vm.state for vm in scene.yard.cloud.vms.values()] == ["STATE_RUNNING"] * 2


@pytest.mark.parametrize("action", ["OFF", "detect_only"])
async def test_where_auto_clusters_only_looks_we_act(scene: Scene, action: str) -> None:
    pool = scene.yard.pool(2)
    scene.yard.auto(action)
    await scene.provider(pool, 2).join(joining("gpu-1"))
    assert has_taint(scene.node("gpu-1"), TAINT_JOINING)


async def test_an_action_that_nobody_knows_is_one_that_may_change_nodes(scene: Scene) -> None:
    pool = scene.yard.pool(1)
    scene.yard.auto("RESET_VM")
    with pytest.raises(CapacityError, match="one healer"):
        await scene.provider(pool, 1).reboot("gpu-1")


async def test_a_look_up_that_fails_is_not_read_as_off(scene: Scene) -> None:
    pool = scene.yard.pool(1)
    scene.yard.server.trouble.faults.append(Fault("autoclusters/config", 403, times=9))
    with pytest.raises(CapacityError, match=r"AutoClusters configuration .*403"):
        await scene.provider(pool, 1).reboot("gpu-1")
    assert scene.changes() == []


async def test_switched_on_between_two_effects_it_is_seen(scene: Scene) -> None:
    pool = scene.yard.pool(1)
    provider = scene.provider(pool, 1)
    scene.yard.server.trouble.after("PATCH", lambda: scene.yard.auto("replace_node"))
    await provider.reboot("gpu-1")
    with pytest.raises(CapacityError, match="one healer"):
        await provider.reboot("gpu-1")


async def test_a_vm_that_a_person_has_remediated_is_left_alone_meanwhile(scene: Scene) -> None:
    pool = scene.yard.pool(2)
    scene.yard.auto("detect_only")
    first, second = scene.yard.cloud.members(pool)
    scene.yard.cloud.begin("x", dict, "REPLACE_NODE", vm_id=first.id, cluster_id=CLUSTER)
    provider = scene.provider(pool, 2)
    with pytest.raises(UnreachableError, match=f"VM {first.name}: AutoClusters operation .* is under way"):
        await provider.quarantine(first.name, "XID 79")
    await provider.reboot(second.name)
    scene.later(10)
    await provider.reboot(first.name)


async def test_an_operation_that_names_no_vm_holds_up_all(scene: Scene) -> None:
    pool = scene.yard.pool(1)
    scene.yard.auto("OFF")
    scene.yard.cloud.begin("x", dict, "REPLACE_NODE", cluster_id=CLUSTER)
    with pytest.raises(UnreachableError, match="under way"):
        await scene.provider(pool, 1).reboot("gpu-1")


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
