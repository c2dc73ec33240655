"""The spare of a replacement: which is chosen, what it must show, and what becomes of one that fails."""

from __future__ import annotations

import pytest

from sparewheel.api.gpu_host import HostPhase
from sparewheel.api.names import NAMESPACE, SPARE_WARM, TAINT_JOINING, TAINT_SPARE
from sparewheel.api.spare_test import SpareTest
from sparewheel.capacity.checks import EVALUATE_SECONDS
from sparewheel.capacity.hosts import read_host
from sparewheel.capacity.port import (
    Check,
    UnfitError,
    UnreachableError,
)
from sparewheel.capacity.reconcile import reconcile_pool
from sparewheel.kube.port import NODE
from tests.support.replacer_scene import OWNER, Scene, new_scene
from tests.support.yard import POOL, pool_of, serious_fault


@pytest.fixture
async def scene() -> Scene:
    return await new_scene()


async def test_a_spare_that_fails_its_checks_is_quarantined(scene: Scene) -> None:
    scene.yard.machines["gpu-3"].faults = [serious_fault(scene.clock)]
    await scene.replacer.claim_spare(scene.pool, OWNER, "gpu-1", ())
    await scene.join()
    result = await scene.replacer.check_spare(scene.pool, "gpu-3", OWNER)
    assert (result.check, result.why) == (Check.REFUSED, "gpu-3 reports XID 79 on the node")
    for _ in range(2):
        await scene.replacer.give_up(scene.pool, "gpu-3", OWNER, result.why, quarantine=True)
    assert await scene.phase("gpu-3") == (HostPhase.QUARANTINED, None)
    assert scene.kube.peek(NODE, "gpu-3") is None


async def test_a_stale_report_is_no_report(scene: Scene) -> None:
    await scene.replacer.claim_spare(scene.pool, OWNER, "gpu-1", ())
    await scene.join()
    assert (await scene.replacer.check_spare(scene.pool, "gpu-3", OWNER)).check is Check.PASSED
    scene.clock.seconds += 60
    result = await scene.replacer.check_spare(scene.pool, "gpu-3", OWNER)
    assert (result.check, result.why) == (Check.WAIT, "a fresh report of the agent on gpu-3")


async def test_the_claim_says_why_this_one_and_says_the_same_again(scene: Scene) -> None:
    for machine in scene.yard.machines.values():
        machine.instance_type, machine.fabric_block = "h200", "b1"
    await scene.build()
    first = await scene.replacer.claim_spare(scene.pool, OWNER, "gpu-1", ())
    assert first.why == "same type h200, same fabric block b1, never checked before"
    scene.clock.seconds += 100
    assert await scene.replacer.claim_spare(scene.pool, OWNER, "gpu-1", ()) == first
    nobody = await scene.replacer.claim_spare(scene.pool, "remediation/other", "gpu-2", ())
    assert (nobody.host, nobody.why) == (None, f"gpu-3: it is claimed by {OWNER}")


async def test_a_spare_that_the_inventory_changed_is_chosen_by_what_it_says_now(scene: Scene) -> None:
    scene.yard.machines["gpu-3"].instance_type = "a100"  # nobody wrote that into its GpuHost yet
    choice = await scene.replacer.claim_spare(scene.pool, OWNER, "gpu-1", ())
    assert (choice.host, choice.why) == (None, "gpu-3: it is of type a100, not unknown")
    del scene.yard.machines["gpu-3"]
    assert (await scene.replacer.claim_spare(scene.pool, OWNER, "gpu-1", ())).host is None


async def test_a_claim_is_looked_at_again_before_it_is_used(scene: Scene) -> None:
    await scene.replacer.claim_spare(scene.pool, OWNER, "gpu-1", ())
    scene.yard.machines["gpu-3"].instance_type = "a100"
    with pytest.raises(UnfitError, match="gpu-3: it is of type a100") as caught:
        await scene.replacer.join_spare(scene.pool, "gpu-3", OWNER, "gpu-1")
    assert not caught.value.ill
    assert ("join", "gpu-3") not in scene.yard.log[-1:]
    assert scene.kube.peek(NODE, "gpu-3") is None
    assert (await scene.phase("gpu-3"))[0] is HostPhase.SPARE, "nothing was begun"


async def test_a_warm_spare_that_fell_ill_while_it_stood_by_is_not_joined(scene: Scene) -> None:
    await scene.build_up(2, warm_spares=True)
    scene.yard.settle()
    await scene.replacer.claim_spare(scene.pool, OWNER, "gpu-1", ())
    scene.yard.machines["gpu-3"].faults = [serious_fault(scene.clock)]
    scene.yard.settle()
    with pytest.raises(UnfitError, match="reports XID 79") as caught:
        await scene.replacer.join_spare(scene.pool, "gpu-3", OWNER, "gpu-1")
    assert caught.value.ill


async def test_not_evaluated_is_waited_for_and_then_a_failed_check(scene: Scene) -> None:
    scene.yard.machines["gpu-3"].gpus = None
    await scene.replacer.claim_spare(scene.pool, OWNER, "gpu-1", ())
    await scene.join()
    result = await scene.replacer.check_spare(scene.pool, "gpu-3", OWNER)
    assert (result.check, result.why) == (Check.WAIT, "the agent on gpu-3 to count its GPUs")
    scene.clock.seconds += EVALUATE_SECONDS + 1
    scene.yard.settle()
    result = await scene.replacer.check_spare(scene.pool, "gpu-3", OWNER)
    assert (result.check, result.why[:46]) == (Check.REFUSED, "the GPUs of gpu-3 could not be evaluated (no r")


@pytest.mark.parametrize(("seen", "expected"), [(8, Check.PASSED), (7, Check.REFUSED), (None, Check.WAIT)])
async def test_hcas_are_counted_where_the_pool_expects_them(scene: Scene, seen: int | None, expected: Check) -> None:
    scene.pool = pool_of(scene.kube, 2, hcas_per_node=8)
    scene.yard.machines["gpu-3"].hcas = seen
    await scene.replacer.claim_spare(scene.pool, OWNER, "gpu-1", ())
    await scene.join()
    assert (await scene.replacer.check_spare(scene.pool, "gpu-3", OWNER)).check is expected


async def test_only_a_free_spare_that_passes_its_checks_is_opened_to_workers(scene: Scene) -> None:
    assert (await scene.replacer.seat(scene.pool, "gpu-1")).check is Check.WAIT, "it serves"
    assert (await scene.replacer.seat(scene.pool, "gpu-3")).check is Check.WAIT, "it is outside the cluster"
    scene.pool = pool_of(scene.kube, 2, warm_spares=True)
    await reconcile_pool(scene.kube, NAMESPACE, POOL, scene.clock, scene.reports, provider=scene.yard)
    scene.yard.machines["gpu-3"].gpus = 7
    scene.yard.settle()
    assert (await scene.replacer.seat(scene.pool, "gpu-3")).check is Check.REFUSED
    scene.yard.machines["gpu-3"].gpus = 8
    scene.yard.settle()
    for _ in range(2):
        assert (await scene.replacer.seat(scene.pool, "gpu-3")).check is Check.PASSED
    node = scene.kube.peek(NODE, "gpu-3")
    assert node is not None
    assert node["spec"]["taints"] == [{"key": TAINT_SPARE, "effect": "NoSchedule", "value": SPARE_WARM}]
    for _ in range(2):
        await scene.replacer.unseat(scene.pool, "gpu-3")
    await scene.replacer.unseat(scene.pool, "gpu-1")
    node = scene.kube.peek(NODE, "gpu-3")
    assert node is not None
    assert node["spec"]["taints"] == [{"key": TAINT_SPARE, "effect": "NoSchedule"}], "warm spares were switched off"
    assert (await scene.replacer.claim_spare(scene.pool, OWNER, "gpu-1", ())).host == "gpu-3"
    assert (await scene.replacer.seat(scene.pool, "gpu-3")).check is Check.WAIT, "it is somebody's now"
    await scene.replacer.join_spare(scene.pool, "gpu-3", OWNER)
    node = scene.kube.peek(NODE, "gpu-3")
    assert node is not None
    assert [taint["key"] for taint in node["spec"]["taints"]] == [TAINT_JOINING]


async def test_a_spare_that_does_not_answer_is_let_go_and_taken_last(scene: Scene) -> None:
    replacer, pool, yard = scene.replacer, scene.pool, scene.yard
    yard.add("gpu-4")
    await reconcile_pool(scene.kube, NAMESPACE, POOL, scene.clock, scene.reports, provider=yard)
    assert (await replacer.claim_spare(pool, OWNER, "gpu-1", ())).host == "gpu-3"
    assert not await replacer.another_free(pool, "gpu-1", ["gpu-4"]), "the one that is held is no other"
    yard.machines["gpu-3"].reachable = False
    with pytest.raises(UnreachableError):
        await replacer.join_spare(pool, "gpu-3", OWNER)
    assert await replacer.another_free(pool, "gpu-1", ())
    for _ in range(2):
        await replacer.pass_over(pool, "gpu-3", OWNER, "it did not answer")
    assert await scene.phase("gpu-3") == (HostPhase.SPARE, None)
    assert (await replacer.claim_spare(pool, OWNER, "gpu-1", ())).host == "gpu-4"
    assert not await replacer.another_free(pool, "gpu-1", ()), "gpu-3 gave trouble"
    yard.machines["gpu-3"].reachable = True
    assert (await replacer.claim_spare(pool, "remediation/other", "gpu-2", ())).host == "gpu-3"
    assert await replacer.join_spare(pool, "gpu-3", "remediation/other") == "gpu-3"


async def test_a_spares_test_is_noted_and_a_spare_that_failed_it_is_quarantined(scene: Scene) -> None:
    replacer, pool = scene.replacer, scene.pool
    test = SpareTest(time=scene.clock.now(), boot_id="b", passed=True)
    await replacer.note_test(pool, "gpu-3", test)
    assert (await read_host(scene.kube, NAMESPACE, "gpu-3")).status.slurm_test == test
    for _ in range(2):
        await replacer.quarantine_spare(pool, "gpu-3", "its Slurm test job: exit code 1")
    assert await scene.phase("gpu-3") == (HostPhase.QUARANTINED, None)
    status = (await read_host(scene.kube, NAMESPACE, "gpu-3")).status
    assert "exit code 1" in status.quarantine_reason


async def test_a_spare_that_an_incident_claimed_meanwhile_is_left_to_it(scene: Scene) -> None:
    await scene.replacer.claim_spare(scene.pool, OWNER, "gpu-1", ())
    await scene.replacer.quarantine_spare(scene.pool, "gpu-3", "its Slurm test job: exit code 1")
    assert await scene.phase("gpu-3") == (HostPhase.SPARE, OWNER)
