"""A search that found nothing free is believed for a while by the others: in a storm each look reads a whole pool."""

from __future__ import annotations

from sparewheel.capacity.port import CapacityProvider, Inventory
from sparewheel.kube.port import GPU_HOST
from tests.support.yard import Yard
from tests.unit.capacity.test_replacer import OWNER, Scene

OTHER = "remediation/other"
LOOK_SECONDS = 0.3


class SlowYard(Yard):
    """Its inventory takes a while."""

    async def list_hosts(self) -> list[Inventory]:
        await self.clock.sleep(LOOK_SECONDS)
        return await super().list_hosts()


class SlowScene(Scene):
    def __init__(self) -> None:
        super().__init__()
        self.yard = SlowYard(self.kube, self.clock)

    async def provider_of(self, pool: object) -> CapacityProvider:
        return self.yard

    def looks(self) -> int:
        """Lists of a pool's hosts so far."""
        return len([call for call in self.kube.calls if call.verb == "list" and call.resource == GPU_HOST])


async def built() -> SlowScene:
    scene = SlowScene()
    scene.yard.add("gpu-1", "gpu-2", "gpu-3")
    await scene.build()
    assert (await scene.replacer.claim_spare(scene.pool, OTHER, "gpu-2", ())).host == "gpu-3"
    return scene


async def searches(scene: SlowScene, owner: str = OWNER) -> int:
    """How many lists one search takes."""
    before = scene.looks()
    await scene.replacer.claim_spare(scene.pool, owner, "gpu-1", ())
    return scene.looks() - before


async def test_many_who_search_in_vain_look_once_and_again_after_a_rest() -> None:
    scene = await built()
    assert await searches(scene) == 1
    assert [await searches(scene, f"remediation/{number}") for number in range(20)] == [0] * 20
    scene.clock.seconds += 10 * LOOK_SECONDS
    assert await searches(scene) == 1


async def test_a_spare_that_is_kept_from_work_is_no_reason_to_look_again() -> None:
    scene = SlowScene()
    scene.yard.add("gpu-1", "gpu-2", "gpu-3")
    await scene.build_up(2, warm_spares=True, spares=1)
    scene.yard.machines["gpu-3"].jobs = [7]
    scene.yard.settle()
    assert await searches(scene) == 1
    assert await searches(scene, "remediation/next") == 0


async def test_who_holds_a_host_always_looks() -> None:
    """A controller that was killed between claim and journal finds its spare."""
    scene = await built()
    await searches(scene)
    assert (await scene.replacer.claim_spare(scene.pool, OTHER, "gpu-2", ())).host == "gpu-3"


async def test_a_host_that_is_seen_free_ends_the_rest() -> None:
    scene = await built()
    assert await searches(scene) == 1
    await scene.replacer.give_up(scene.pool, "gpu-3", OTHER, "not needed", quarantine=False)
    scene.replacer.freed(scene.pool.metadata.name)
    assert (await scene.replacer.claim_spare(scene.pool, OWNER, "gpu-1", ())).host == "gpu-3"


async def test_a_host_that_is_freed_during_a_look_is_not_forgotten() -> None:
    scene = await built()
    began = scene.clock.monotonic_seconds()
    scene.clock.seconds += 1
    scene.replacer.freed(scene.pool.metadata.name)
    scene.clock.seconds += 1
    scene.replacer.vain.note(scene.pool, (), "none stands by", began)
    assert scene.replacer.vain.of(scene.pool, OWNER) is None


async def test_a_pool_that_was_changed_is_looked_at_anew() -> None:
    scene = await built()
    assert await searches(scene) == 1
    scene.pool.metadata.generation = (scene.pool.metadata.generation or 0) + 1
    assert await searches(scene) == 1


async def test_a_free_host_that_only_does_not_fit_says_nothing_to_others() -> None:
    scene = SlowScene()
    scene.yard.add("gpu-1", "gpu-2", "gpu-3")
    await scene.build()
    assert (await scene.replacer.claim_spare(scene.pool, OWNER, "gpu-1", ("gpu-3",))).host is None
    assert (await scene.replacer.claim_spare(scene.pool, OTHER, "gpu-2", ())).host == "gpu-3"
