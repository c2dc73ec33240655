"""One healer per node: where AutoClusters acts, or may, Crusoe's VMs are left alone."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

import pytest

from lab.standins.crusoe.trouble import Fault
from sparewheel.api.names import TAINT_JOINING
from sparewheel.capacity.nodes import has_taint
from sparewheel.capacity.port import CapacityError, Proof, UnreachableError
from sparewheel.kube.port import Json
from tests.support.crusoe_scene import RESERVED, Scene, joining
from tests.support.crusoe_yard import (
    CLUSTER,
)


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


@pytest.mark.parametrize("answer", [{}, {"remediation_configs": None}, {"fallback_to_project_reservations": True}])
async def test_an_answer_without_the_list_of_issues_is_not_read_as_off(scene: Scene, answer: Json) -> None:
    pool = scene.yard.pool(1)
    scene.yard.cloud.auto_clusters[CLUSTER] = answer
    for attempt in (scene.provider(pool, 1).list_hosts(), scene.provider(pool, 1).reboot("gpu-1")):
        with pytest.raises(
            CapacityError, match=rf"AutoClusters configuration of cluster {CLUSTER}.*remediation_configs"
        ):
            await attempt
    assert scene.changes() == []


async def test_an_empty_list_of_issues_is_off(scene: Scene) -> None:
    pool = scene.yard.pool(1)
    scene.yard.cloud.auto_clusters[CLUSTER] = {"remediation_configs": []}
    assert [found.host for found in await scene.provider(pool, 1).list_hosts()] == ["gpu-1"]


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


async def test_before_a_fence_it_is_told_who_else_heals(scene: Scene) -> None:
    pool = scene.yard.pool(1)
    provider = scene.provider(pool, 1)
    assert await provider.other_healer() == ""
    scene.yard.auto("detect_only")
    assert await provider.other_healer() == ""
    scene.yard.auto("REPLACE_NODE")
    assert "AutoClusters acts on XID_79" in await provider.other_healer()
    scene.yard.cloud.auto_clusters[CLUSTER] = {}
    with pytest.raises(CapacityError, match="remediation_configs"):
        await provider.other_healer()
    scene.yard.server.trouble.faults.append(Fault("autoclusters/config", 403, times=9))
    with pytest.raises(CapacityError, match="403"):
        await provider.other_healer()
