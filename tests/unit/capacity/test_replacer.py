"""One spare for one bad host, step by step, each step killed and repeated."""

from __future__ import annotations

from typing import Any

import pytest

from sparewheel.api.gpu_host import HostPhase
from sparewheel.api.gpu_pool import GpuPool
from sparewheel.api.names import NAMESPACE, SPARE_WARM, TAINT_JOINING, TAINT_SPARE
from sparewheel.api.spare_test import SpareTest
from sparewheel.capacity.checks import EVALUATE_SECONDS
from sparewheel.capacity.claims import ClaimedError, owner_of
from sparewheel.capacity.heard import Reports
from sparewheel.capacity.hosts import read_host
from sparewheel.capacity.port import (
    BadNode,
    CapacityError,
    CapacityProvider,
    Check,
    Proof,
    UnfitError,
    UnreachableError,
)
from sparewheel.capacity.reconcile import reconcile_pool
from sparewheel.capacity.replacer import PoolReplacer
from sparewheel.kube.memory import MemoryKube
from sparewheel.kube.port import GPU_HOST, NODE, UnavailableError
from tests.support.clocks import StillClock
from tests.support.yard import POOL, Yard, active_nodes, pool_of, serious_fault

OWNER = "remediation/inc"


class Scene:
    def __init__(self) -> None:
        self.clock, self.reports = StillClock(), Reports()
        self.kube = MemoryKube(clock=self.clock)
        self.yard = Yard(self.kube, self.clock)
        self.replacer = PoolReplacer(self.kube, self.clock, self.provider_of, self.reports)
        self.pool: GpuPool

    async def provider_of(self, pool: GpuPool) -> CapacityProvider:
        return self.yard

    async def build(self) -> None:
        await self.build_up(2)

    async def build_up(self, size: int, **changes: Any) -> None:
        self.pool = pool_of(self.kube, size, **changes)
        for _ in range(20):
            self.clock.seconds += 1
            self.yard.settle()
            if (await reconcile_pool(self.kube, NAMESPACE, POOL, self.clock, self.reports, provider=self.yard)).settled:
                return
        raise AssertionError("not built")

    def bad(self) -> BadNode:
        node = self.kube.peek(NODE, "gpu-1")
        assert node is not None
        return BadNode("gpu-1", node["metadata"]["uid"], self.yard.machines["gpu-1"].boot_id, "XID 79: replace (inc)")

    async def join(self) -> None:
        """The claimed spare, which is looked at until its agent reports."""
        await self.replacer.join_spare(self.pool, "gpu-3", OWNER)
        assert (await self.replacer.check_spare(self.pool, "gpu-3", OWNER)).check is Check.WAIT
        self.yard.settle()

    async def phase(self, name: str) -> tuple[HostPhase, str | None]:
        host = await read_host(self.kube, NAMESPACE, name)
        return host.status.phase, owner_of(host)


@pytest.fixture
async def scene() -> Scene:
    scene = Scene()
    scene.yard.add("gpu-1", "gpu-2", "gpu-3")
    await scene.build()
    return scene


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


async def test_a_stale_report_is_no_report(scene: Scene) -> None:
    await scene.replacer.claim_spare(scene.pool, OWNER, "gpu-1", ())
    await scene.join()
    assert (await scene.replacer.check_spare(scene.pool, "gpu-3", OWNER)).check is Check.PASSED
    scene.clock.seconds += 60
    result = await scene.replacer.check_spare(scene.pool, "gpu-3", OWNER)
    assert (result.check, result.why) == (Check.WAIT, "a fresh report of the agent on gpu-3")


async def test_proof_is_the_backends(scene: Scene) -> None:
    assert await scene.replacer.prove_off(scene.pool, "gpu-1", power_off=False) is Proof.ON
    scene.yard.machines["gpu-1"].power_known = False
    assert await scene.replacer.prove_off(scene.pool, "gpu-1", power_off=True) is Proof.UNKNOWN


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


async def test_a_power_cycle_is_the_backends(scene: Scene) -> None:
    before = scene.yard.machines["gpu-1"].boot_id
    await scene.replacer.reboot(scene.pool, "gpu-1")
    assert scene.yard.machines["gpu-1"].boot_id != before
