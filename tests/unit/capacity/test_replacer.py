"""One spare for one bad host, step by step, each step killed and repeated."""

from __future__ import annotations

import pytest

from sparewheel.api.gpu_host import HostPhase
from sparewheel.api.names import NAMESPACE
from sparewheel.capacity.claims import ClaimedError
from sparewheel.capacity.hosts import read_host
from sparewheel.capacity.port import (
    BadNode,
    CapacityError,
    Check,
    Proof,
)
from sparewheel.kube.port import GPU_HOST, NODE, UnavailableError
from tests.support.replacer_scene import OWNER, Scene, new_scene
from tests.support.yard import POOL, active_nodes


@pytest.fixture
async def scene() -> Scene:
    return await new_scene()


async def test_the_whole_replacement_each_step_twice(scene: Scene) -> None:
    replacer, pool, bad = scene.replacer, scene.pool, scene.bad()
    assert await replacer.host_of(pool, "gpu-1") == "gpu-1"
    for _ in range(2):
        assert (await replacer.claim_spare(pool, OWNER, "gpu-1", ())).host == "gpu-3"
    assert await replacer.holds(pool, "gpu-3", OWNER)
    for _ in range(2):
        assert await replacer.join_spare(pool, "gpu-3", OWNER) == "gpu-3"
    assert (await replacer.check_spare(pool, "gpu-3", OWNER)).check is Check.WAIT
    assert active_nodes(scene.kube, ["gpu-3"]) == set()
    scene.yard.settle()
    assert (await replacer.check_spare(pool, "gpu-3", OWNER)).check is Check.PASSED
    for _ in range(2):
        await replacer.admit(pool, "gpu-3", OWNER)
    assert active_nodes(scene.kube, ["gpu-3"]) == {"gpu-3"}
    assert await replacer.holds(pool, "gpu-3", OWNER), "until the bad host is out, the incident knows its spare"
    for _ in range(2):
        await replacer.retire(pool, "gpu-1", bad, OWNER)
    assert scene.kube.peek(NODE, "gpu-1") is None
    assert scene.yard.machines["gpu-1"].joined is None
    assert await scene.phase("gpu-1") == (HostPhase.QUARANTINED, None)
    assert await scene.phase("gpu-3") == (HostPhase.ACTIVE, None)
    host = await read_host(scene.kube, NAMESPACE, "gpu-1")
    assert (host.status.refused_boot_id, host.status.reason) == (bad.boot_id, bad.reason)


async def test_no_spare_is_none(scene: Scene) -> None:
    assert (await scene.replacer.claim_spare(scene.pool, OWNER, "gpu-1", ())).host == "gpu-3"
    assert (await scene.replacer.claim_spare(scene.pool, "remediation/other", "gpu-2", ())).host is None


async def test_a_repaired_machine_given_back_is_found_while_the_incident_waits(scene: Scene) -> None:
    await scene.replacer.claim_spare(scene.pool, "remediation/other", "gpu-2", ())
    assert (await scene.replacer.claim_spare(scene.pool, OWNER, "gpu-1", ())).host is None
    scene.yard.add("gpu-4")
    assert (await scene.replacer.claim_spare(scene.pool, OWNER, "gpu-1", ())).host == "gpu-4"


async def test_a_failed_look_is_not_no_spare(scene: Scene) -> None:
    scene.kube.fail(UnavailableError("cut"), "list")
    with pytest.raises(UnavailableError):
        await scene.replacer.claim_spare(scene.pool, OWNER, "gpu-1", ())


async def test_a_lost_host_is_retired_only_once_proven_off(scene: Scene) -> None:
    bad, machine = scene.bad(), scene.yard.machines["gpu-1"]
    machine.reachable, machine.power_known = False, False
    with pytest.raises(CapacityError, match="gpu-1 is neither out of the cluster nor proven off"):
        await scene.replacer.retire(scene.pool, "gpu-1", bad, OWNER)
    assert scene.kube.peek(NODE, "gpu-1") is not None
    assert (await scene.phase("gpu-1"))[0] is HostPhase.ACTIVE
    machine.power_known = True
    await scene.replacer.retire(scene.pool, "gpu-1", bad, OWNER)
    assert not machine.on
    assert scene.kube.peek(NODE, "gpu-1") is None
    assert (await scene.phase("gpu-1"))[0] is HostPhase.QUARANTINED


async def test_a_bad_host_whose_object_was_deleted_is_quarantined_all_the_same(scene: Scene) -> None:
    bad = scene.bad()
    await scene.replacer.claim_spare(scene.pool, OWNER, "gpu-1", ())
    await scene.kube.delete(GPU_HOST, "gpu-1", NAMESPACE)
    await scene.replacer.join_spare(scene.pool, "gpu-3", OWNER, "gpu-1")
    scene.yard.settle()
    await scene.replacer.admit(scene.pool, "gpu-3", OWNER)
    await scene.replacer.retire(scene.pool, "gpu-1", bad, OWNER)
    assert scene.kube.peek(NODE, "gpu-1") is None
    assert await scene.phase("gpu-1") == (HostPhase.QUARANTINED, None)
    assert await scene.phase("gpu-3") == (HostPhase.ACTIVE, None)


async def test_a_bad_host_that_nobody_lists_is_named(scene: Scene) -> None:
    await scene.kube.delete(GPU_HOST, "gpu-1", NAMESPACE)
    del scene.yard.machines["gpu-1"]
    with pytest.raises(CapacityError, match=f"GpuHost gpu-1 was deleted, and the inventory of pool {POOL}"):
        await scene.replacer.retire(scene.pool, "gpu-1", BadNode("gpu-1", "uid", "boot", "why"), OWNER)


async def test_a_spare_not_needed_goes_back(scene: Scene) -> None:
    await scene.replacer.claim_spare(scene.pool, OWNER, "gpu-1", ())
    await scene.join()
    for _ in range(2):
        await scene.replacer.give_up(scene.pool, "gpu-3", OWNER, "not needed", quarantine=False)
    assert await scene.phase("gpu-3") == (HostPhase.SPARE, None)
    assert scene.kube.peek(NODE, "gpu-3") is None
    assert scene.yard.machines["gpu-3"].joined is None


async def test_the_quarantined_boot_never_serves_again(scene: Scene) -> None:
    await scene.replacer.retire(scene.pool, "gpu-1", scene.bad(), OWNER)
    patch = {"status": {"phase": "Spare"}}  # a person puts it back without repairing it
    await scene.kube.merge_patch(GPU_HOST, "gpu-1", patch, NAMESPACE, "status")
    assert (await scene.replacer.claim_spare(scene.pool, OWNER, "gpu-2", {"gpu-3"})).host == "gpu-1"
    await scene.replacer.join_spare(scene.pool, "gpu-1", OWNER)
    scene.yard.settle()
    assert (await scene.replacer.check_spare(scene.pool, "gpu-1", OWNER)).check is Check.REFUSED
    with pytest.raises(CapacityError, match="boot that was quarantined"):
        await scene.replacer.admit(scene.pool, "gpu-1", OWNER)
    assert active_nodes(scene.kube, ["gpu-1"]) == set()
    await scene.yard.reboot("gpu-1")
    scene.yard.settle()
    assert (await scene.replacer.check_spare(scene.pool, "gpu-1", OWNER)).check is Check.PASSED


async def test_without_the_claim_nothing_is_done(scene: Scene) -> None:
    for attempt in (
        scene.replacer.join_spare(scene.pool, "gpu-3", OWNER),
        scene.replacer.check_spare(scene.pool, "gpu-3", OWNER),
        scene.replacer.admit(scene.pool, "gpu-3", OWNER),
    ):
        with pytest.raises(ClaimedError, match="not held by remediation/inc"):
            await attempt
    assert ("join", "gpu-3") not in scene.yard.log


async def test_proof_is_the_backends(scene: Scene) -> None:
    assert await scene.replacer.prove_off(scene.pool, "gpu-1", power_off=False) is Proof.ON
    scene.yard.machines["gpu-1"].power_known = False
    assert await scene.replacer.prove_off(scene.pool, "gpu-1", power_off=True) is Proof.UNKNOWN


async def test_a_power_cycle_is_the_backends(scene: Scene) -> None:
    before = scene.yard.machines["gpu-1"].boot_id
    await scene.replacer.reboot(scene.pool, "gpu-1")
    assert scene.yard.machines["gpu-1"].boot_id != before
