"""Hosts in and out of quarantine by a person's word: after the checks only, and a lemon only when it was cleared."""

from __future__ import annotations

from typing import Any

import pytest

from sparewheel.api.gpu_host import GpuHost, HostPhase, HostRequest, HostVerb
from sparewheel.api.names import ANNOTATION_HOST_ANSWER, ANNOTATION_HOST_REQUEST, NAMESPACE, TAINT_JOINING
from sparewheel.api.remediation import Outcome
from sparewheel.capacity.claims import owner_of
from sparewheel.capacity.heard import Reports
from sparewheel.capacity.hosts import read_host
from sparewheel.capacity.nodes import has_taint
from sparewheel.capacity.port import BadNode, CapacityProvider
from sparewheel.capacity.reconcile import reconcile_pool
from sparewheel.capacity.replacer import PoolReplacer
from sparewheel.capacity.requests import DEADLINE_SECONDS
from sparewheel.cli.commands.host import ask
from sparewheel.cli.common import CommandError
from sparewheel.kube.memory import MemoryKube
from sparewheel.kube.port import GPU_HOST, NODE, REMEDIATION, UnavailableError
from tests.support.clocks import StillClock
from tests.support.incidents import fault, remediation
from tests.support.yard import POOL, Yard, pool_of, serious_fault

OWNER = "remediation/inc"


class Scene:
    def __init__(self, **changes: Any) -> None:
        self.clock, self.reports = StillClock(), Reports()
        self.kube = MemoryKube(clock=self.clock)
        self.yard = Yard(self.kube, self.clock)
        self.yard.add("gpu-1", "gpu-2", "gpu-3")
        self.pool = pool_of(self.kube, 2, **changes)

    async def provider_of(self, pool: Any) -> CapacityProvider:
        return self.yard

    @property
    def replacer(self) -> PoolReplacer:
        return PoolReplacer(self.kube, self.clock, self.provider_of, self.reports)

    async def once(self) -> str:
        self.clock.seconds += 1
        self.yard.settle()
        result = await reconcile_pool(self.kube, NAMESPACE, POOL, self.clock, self.reports, provider=self.yard)
        return "" if result.settled else result.message

    async def settle(self) -> None:
        for _ in range(30):
            if not await self.once():
                return
        raise AssertionError("not settled")

    async def host(self, name: str = "gpu-1") -> GpuHost:
        return await read_host(self.kube, NAMESPACE, name)

    async def answer(self, name: str = "gpu-1") -> str:
        annotations = (await self.host(name)).metadata.annotations
        assert ANNOTATION_HOST_REQUEST not in annotations
        return annotations.get(ANNOTATION_HOST_ANSWER, "")

    def wish(self, verb: HostVerb = HostVerb.RELEASE, **fields: Any) -> HostRequest:
        return HostRequest(verb=verb, by="ada", time=self.clock.now(), reason="new riser", **fields)

    def record(self, name: str, host: str, refused: tuple[str, ...] = ()) -> None:
        seen = self.clock.now()
        record = remediation(name, node=host, fault=fault(first_seen=seen, last_seen=seen), outcome=Outcome.HEALED)
        record.status.replacement.refused_hosts = list(refused)
        self.kube.put(REMEDIATION, record.to_wire(), NAMESPACE)

    async def lose(self, name: str = "inc", bad: str = "gpu-1", spare: str = "gpu-3") -> None:
        """One host fails and is replaced."""
        owner = f"remediation/{name}"
        node = self.kube.peek(NODE, bad)
        assert node is not None
        self.record(name, bad)
        assert (await self.replacer.claim_spare(self.pool, owner, bad, ())).host == spare
        await self.replacer.join_spare(self.pool, spare, owner, bad)
        self.yard.settle()
        await self.replacer.admit(self.pool, spare, owner)
        boot = self.yard.machines[bad].boot_id
        await self.replacer.retire(
            self.pool, bad, BadNode(bad, node["metadata"]["uid"], boot, "XID 79: replace"), owner
        )

    async def refuse_as_spare(self, name: str) -> None:
        """An incident takes gpu-1 as its spare, and it fails its checks."""
        owner = f"remediation/{name}"
        self.record(name, "gpu-2")
        assert (await self.replacer.claim_spare(self.pool, owner, "gpu-2", ())).host == "gpu-1"
        await self.replacer.give_up(self.pool, "gpu-1", owner, "gpu-1 has 7 of 8 GPUs", quarantine=True)
        self.record(name, "gpu-2", refused=("gpu-1",))


@pytest.fixture
async def scene() -> Scene:
    scene = Scene()
    await scene.settle()
    await scene.lose()
    await scene.settle()
    return scene


async def test_a_repaired_host_is_a_spare_again_after_its_checks(scene: Scene) -> None:
    quarantined_at = scene.clock.now()
    scene.clock.seconds += 86400
    await scene.yard.reboot("gpu-1")
    await ask(scene.kube, "gpu-1", scene.wish())
    assert "gpu-1 is to be released and waits for" in await scene.once()
    node = scene.kube.peek(NODE, "gpu-1")
    assert node is None or has_taint(node, TAINT_JOINING), "it comes in tainted"
    await scene.settle()
    assert (await scene.answer()).startswith("released by ada")
    status = (await scene.host()).status
    assert (status.phase, status.claim, status.node_name, status.reason) == (HostPhase.SPARE, None, None, "")
    assert status.checked_at is not None
    assert status.released_by.endswith(": new riser")
    assert status.released_by.startswith("ada at ")
    assert (status.refused_boot_id, status.quarantined_at, status.quarantine_reason) == (None, None, "")
    (repair,) = status.repairs
    assert (repair.released_at - repair.quarantined_at).total_seconds() == pytest.approx(86400, abs=60)
    assert repair.quarantined_at <= quarantined_at
    assert scene.yard.machines["gpu-1"].joined is None, "it stands by outside the cluster, as cold spares do"


async def test_the_boot_that_was_quarantined_stays_out(scene: Scene) -> None:
    await ask(scene.kube, "gpu-1", scene.wish())
    await scene.settle()
    answer = await scene.answer()
    assert "stays quarantined: it is the boot" in answer
    assert "repair or reboot it first" in answer
    assert "--repaired" in answer
    status = (await scene.host()).status
    assert (status.phase, status.claim) == (HostPhase.QUARANTINED, None)
    assert status.reason.startswith("XID 79: replace; not released: it is the boot")
    await ask(scene.kube, "gpu-1", scene.wish())
    await scene.settle()
    assert (await scene.host()).status.reason == status.reason, "the reason does not grow with each try"


async def test_a_person_may_vouch_for_a_repair_without_a_reboot_but_not_for_the_checks(scene: Scene) -> None:
    scene.yard.machines["gpu-1"].faults = [serious_fault(scene.clock)]
    await ask(scene.kube, "gpu-1", scene.wish(repaired=True))
    await scene.settle()
    assert "gpu-1 reports XID 79" in await scene.answer()
    scene.yard.machines["gpu-1"].faults = []
    await ask(scene.kube, "gpu-1", scene.wish(repaired=True))
    await scene.settle()
    assert (await scene.answer()).startswith("released")
    assert (await scene.host()).status.refused_boot_id is None


async def test_a_host_that_never_comes_up_stays_quarantined(scene: Scene) -> None:
    scene.yard.machines["gpu-1"].reachable = False
    await ask(scene.kube, "gpu-1", scene.wish())
    assert "waits for machine gpu-1 can't be reached" in await scene.once()
    scene.clock.seconds += DEADLINE_SECONDS
    await scene.once()
    assert "not ready after 900 s" in await scene.answer()
    assert (await scene.host()).status.phase is HostPhase.QUARANTINED


async def test_what_cannot_be_is_refused_before_anything_is_written(scene: Scene) -> None:
    writes = len(scene.kube.writes)
    for name, wish, says in [
        ("gpu-2", scene.wish(), "host gpu-2 is Active, not quarantined; there is nothing to release"),
        ("gpu-2", scene.wish(HostVerb.QUARANTINE), "host gpu-2 serves as node gpu-2; `sparewheel replace gpu-2`"),
        ("gpu-1", scene.wish(HostVerb.QUARANTINE), "host gpu-1 is Quarantined, not a spare"),
        ("gpu-1", scene.wish().model_copy(update={"reason": " "}), "a reason is needed"),
        ("gpu-9", scene.wish(), "there is no host gpu-9"),
    ]:
        with pytest.raises(CommandError, match=says):
            await ask(scene.kube, name, wish)
    assert len(scene.kube.writes) == writes


async def test_a_spare_is_quarantined_and_released_again(scene: Scene) -> None:
    await scene.yard.reboot("gpu-1")
    await ask(scene.kube, "gpu-1", scene.wish())
    await scene.settle()
    await ask(scene.kube, "gpu-1", scene.wish(HostVerb.QUARANTINE))
    await scene.settle()
    status = (await scene.host()).status
    assert (status.phase, status.claim, status.reason) == (HostPhase.QUARANTINED, None, "by ada: new riser")
    await ask(scene.kube, "gpu-1", scene.wish())
    await scene.settle()
    assert (await scene.host()).status.phase is HostPhase.SPARE


async def test_a_request_that_is_none_is_answered(scene: Scene) -> None:
    patch = {"metadata": {"annotations": {ANNOTATION_HOST_REQUEST: '{"verb":"explode"}'}}}
    await scene.kube.merge_patch(GPU_HOST, "gpu-1", patch, NAMESPACE)
    await scene.settle()
    assert (await scene.answer()).startswith("refused: the request on host gpu-1 can't be read")


@pytest.mark.parametrize("cut", range(1, 14))
async def test_cut_anywhere_it_ends_the_same(scene: Scene, cut: int) -> None:
    await scene.yard.reboot("gpu-1")
    await ask(scene.kube, "gpu-1", scene.wish())
    left = cut

    def gate() -> None:
        nonlocal left
        left -= 1
        if left == 0:
            raise UnavailableError("cut")

    for _ in range(20):
        scene.clock.seconds += 1
        scene.yard.settle()
        try:
            await reconcile_pool(
                scene.kube, NAMESPACE, POOL, scene.clock, scene.reports, before_write=gate, provider=scene.yard
            )
        except UnavailableError:
            continue
    status = (await scene.host()).status
    assert (status.phase, status.claim, status.refused_boot_id) == (HostPhase.SPARE, None, None)
    assert len(status.repairs) == 1
    assert (await scene.answer()).startswith("released")


# -------------------------------------------------------------------- lemons
async def test_the_third_incident_makes_a_lemon_that_only_a_person_clears(scene: Scene) -> None:
    for name in ("two", "three"):
        assert not (await scene.host()).status.lemon
        await scene.yard.reboot("gpu-1")
        await ask(scene.kube, "gpu-1", scene.wish())
        await scene.settle()
        await scene.refuse_as_spare(name)
    status = (await scene.host()).status
    assert (status.lemon, status.phase) == (True, HostPhase.QUARANTINED)
    assert status.reason.startswith("lemon: 3 incidents in 7 days (inc, three, two)")
    await scene.yard.reboot("gpu-1")
    with pytest.raises(CommandError, match=r"gpu-1 is a lemon .* add --clear-lemon"):
        await ask(scene.kube, "gpu-1", scene.wish())
    await ask(scene.kube, "gpu-1", scene.wish(clear_lemon=True))
    await scene.settle()
    status = (await scene.host()).status
    assert (status.lemon, status.phase, status.cleared_at is not None) == (False, HostPhase.SPARE, True)
    assert len(status.repairs) == 3


# -------------------------------------------------------------------- spares that stand by
async def test_a_warm_spare_is_looked_at_and_one_that_fell_ill_is_found_before_it_is_needed() -> None:
    scene = Scene(warm_spares=True)
    await scene.settle()
    await scene.once()
    checked = (await scene.host("gpu-3")).status.checked_at
    assert checked is not None
    writes = len(scene.kube.writes)
    await scene.once()
    assert len(scene.kube.writes) == writes, "not noted anew at every look"
    scene.clock.seconds += 1900
    await scene.once()
    again = (await scene.host("gpu-3")).status.checked_at
    assert again is not None
    assert again > checked
    scene.yard.machines["gpu-3"].faults = [serious_fault(scene.clock)]
    assert "spare gpu-3 is quarantined: it reports XID 79" in await scene.once()
    host = await scene.host("gpu-3")
    assert (host.status.phase, owner_of(host)) == (HostPhase.QUARANTINED, None)
    assert host.status.reason == "as a spare, it reports XID 79 on the node"


async def test_agents_that_say_nothing_cost_no_spare() -> None:
    scene = Scene(warm_spares=True)
    await scene.settle()
    scene.yard.machines["gpu-3"].gpus = None
    for _ in range(5):
        await scene.once()
    assert (await scene.host("gpu-3")).status.phase is HostPhase.SPARE
