"""Job processes that are left on a spare: it is neither claimed nor passes its checks, and it says why."""

from __future__ import annotations

import pytest

from sparewheel.api.gpu_host import HostPhase
from sparewheel.api.names import NAMESPACE, TAINT_JOINING
from sparewheel.api.spare_test import SpareTest
from sparewheel.capacity.checks import EVALUATE_SECONDS
from sparewheel.capacity.hosts import read_host
from sparewheel.capacity.port import Check, UnfitError
from sparewheel.capacity.reconcile import reconcile_pool
from sparewheel.kube.port import GPU_HOST, NODE
from tests.support.replacer_scene import OWNER, Scene
from tests.support.yard import POOL, pool_of

ALIVE = "it takes no work while processes of job 7 are alive on it (reboot it if they don't end)"
UNKNOWN = "it takes no work while its agent can't say whether job processes are alive on it (see the agent's log)"


async def standing_by(spares: int = 1) -> Scene:
    """Two nodes, and spares that stand by in the cluster."""
    scene = Scene()
    scene.yard.add(*(f"gpu-{number + 1}" for number in range(2 + spares)))
    await scene.build_up(2, warm_spares=True, spares=spares)
    scene.yard.settle()
    return scene


async def look(scene: Scene, *, settle: bool = True) -> str:
    """One look at the pool; the spare's reason."""
    scene.clock.seconds += 1
    if settle:
        scene.yard.settle()
    await reconcile_pool(scene.kube, NAMESPACE, POOL, scene.clock, scene.reports, provider=scene.yard)
    return (await read_host(scene.kube, NAMESPACE, "gpu-3")).status.reason


@pytest.mark.parametrize(("jobs", "why"), [([7], ALIVE), (None, UNKNOWN)])
async def test_a_spare_with_job_processes_is_not_claimed_until_they_have_ended(
    jobs: list[int] | None, why: str
) -> None:
    scene = await standing_by()
    replacer, pool = scene.replacer, scene.pool
    scene.yard.machines["gpu-3"].jobs = jobs
    scene.yard.settle()
    for choice in (await replacer.claim_spare(pool, OWNER, "gpu-1", ()), await replacer.would_claim(pool, "gpu-1")):
        assert (choice.host, choice.why) == (None, f"gpu-3: {why}")
    assert not await replacer.another_free(pool, "gpu-1", ())
    assert (await replacer.seat(pool, "gpu-3")).check is not Check.PASSED
    assert await scene.phase("gpu-3") == (HostPhase.SPARE, None)
    scene.yard.machines["gpu-3"].jobs = []
    scene.yard.settle()
    assert await replacer.another_free(pool, "gpu-1", ())
    assert (await replacer.would_claim(pool, "gpu-1")).host == "gpu-3"
    assert (await replacer.claim_spare(pool, OWNER, "gpu-1", ())).host == "gpu-3"


async def test_another_spare_is_taken_instead() -> None:
    scene = await standing_by(spares=2)
    scene.yard.machines["gpu-3"].jobs = [7]
    scene.yard.settle()
    assert (await scene.replacer.would_claim(scene.pool, "gpu-1")).host == "gpu-4"
    assert (await scene.replacer.claim_spare(scene.pool, OWNER, "gpu-1", ())).host == "gpu-4"


async def test_the_last_word_of_an_agent_that_fell_silent_counts_until_another_boot() -> None:
    scene = await standing_by()
    machine = scene.yard.machines["gpu-3"]
    machine.jobs = [7]
    scene.yard.settle()
    machine.reports = False
    scene.clock.seconds += 600
    assert (await scene.replacer.claim_spare(scene.pool, OWNER, "gpu-1", ())).host is None
    machine.boot_id = "boot-after"
    scene.yard.settle()
    assert (await scene.replacer.claim_spare(scene.pool, OWNER, "gpu-1", ())).host == "gpu-3"


async def test_the_host_says_so_for_as_long_as_it_is_so() -> None:
    scene = await standing_by()
    assert await look(scene) == ""
    scene.yard.machines["gpu-3"].jobs = [7]
    assert await look(scene) == ALIVE
    assert await look(scene) == ALIVE
    assert (await reconcile_pool(scene.kube, NAMESPACE, POOL, scene.clock, scene.reports, provider=scene.yard)).settled
    scene.yard.machines["gpu-3"].jobs = []
    assert await look(scene) == ""


async def test_another_trouble_of_a_spare_is_not_taken_back() -> None:
    scene = await standing_by()
    await scene.kube.merge_patch(
        GPU_HOST, "gpu-3", {"status": {"reason": "was on and did not answer"}}, NAMESPACE, "status"
    )
    for jobs in ([], [7], []):
        scene.yard.machines["gpu-3"].jobs = jobs
        assert await look(scene) == "was on and did not answer"


async def test_a_spare_that_is_given_back_with_them_says_so_at_once() -> None:
    scene = await standing_by()
    scene.yard.keeps_node = True
    replacer, pool = scene.replacer, scene.pool
    await replacer.claim_spare(pool, OWNER, "gpu-1", ())
    await replacer.join_spare(pool, "gpu-3", OWNER, "gpu-1")
    scene.yard.machines["gpu-3"].jobs = [7]
    scene.yard.settle()
    await replacer.give_up(pool, "gpu-3", OWNER, "not needed", quarantine=False)
    host = await read_host(scene.kube, NAMESPACE, "gpu-3")
    assert (host.status.phase, host.status.node_name, host.status.reason) == (HostPhase.SPARE, None, ALIVE)
    assert (await replacer.claim_spare(pool, OWNER, "gpu-2", ())).why == f"gpu-3: {ALIVE}"
    scene.yard.machines["gpu-3"].jobs = []
    assert await look(scene) == ""


async def test_a_claim_is_not_used_on_them() -> None:
    scene = await standing_by()
    await scene.replacer.claim_spare(scene.pool, OWNER, "gpu-1", ())
    scene.yard.machines["gpu-3"].jobs = [7]
    scene.yard.settle()
    with pytest.raises(UnfitError, match="processes of job 7") as caught:
        await scene.replacer.join_spare(scene.pool, "gpu-3", OWNER, "gpu-1")
    assert not caught.value.ill, "it goes back, and another is taken"
    await scene.replacer.join_spare(scene.pool, "gpu-3", OWNER, "gpu-1", takes_jobs=True)
    check = scene.replacer.check_spare
    assert (await check(scene.pool, "gpu-3", OWNER, takes_jobs=True)).check is Check.PASSED, "jobs started on it since"
    assert (await check(scene.pool, "gpu-3", OWNER)).check is Check.WAIT


async def test_a_cold_spare_that_comes_in_with_them_is_given_a_minute() -> None:
    scene = Scene()
    scene.yard.add("gpu-1", "gpu-2", "gpu-3")
    await scene.build()
    scene.yard.machines["gpu-3"].jobs = [7]
    assert (await scene.replacer.claim_spare(scene.pool, OWNER, "gpu-1", ())).host == "gpu-3", "nobody knows"
    await scene.join()
    result = await scene.replacer.check_spare(scene.pool, "gpu-3", OWNER)
    assert (result.check, result.why) == (Check.WAIT, f"the job processes on gpu-3 to end: {ALIVE}")
    scene.clock.seconds += EVALUATE_SECONDS + 1
    scene.yard.settle()
    result = await scene.replacer.check_spare(scene.pool, "gpu-3", OWNER)
    assert (result.check, result.why) == (Check.REFUSED, f"gpu-3: {ALIVE}")


async def test_an_agent_that_cannot_say_is_waited_for() -> None:
    """One look into /proc that failed is no proof against a healthy host."""
    scene = Scene()
    scene.yard.add("gpu-1", "gpu-2", "gpu-3")
    await scene.build()
    await scene.replacer.claim_spare(scene.pool, OWNER, "gpu-1", ())
    await scene.join()
    scene.clock.seconds += EVALUATE_SECONDS + 1
    scene.yard.machines["gpu-3"].jobs = None
    scene.yard.settle()
    result = await scene.replacer.check_spare(scene.pool, "gpu-3", OWNER)
    assert (result.check, result.why) == (Check.WAIT, f"the job processes on gpu-3 to end: {UNKNOWN}")


async def test_a_spares_own_test_job_is_in_nobodys_way() -> None:
    scene = await standing_by()
    replacer, pool = scene.replacer, scene.pool
    await replacer.note_test(pool, "gpu-3", 7)
    scene.yard.machines["gpu-3"].jobs = [7]
    assert await look(scene) == ""
    assert (await replacer.would_claim(pool, "gpu-1")).host == "gpu-3"
    await replacer.note_test(pool, "gpu-3", SpareTest(time=scene.clock.now(), passed=True, job_id=7))
    assert (await read_host(scene.kube, NAMESPACE, "gpu-3")).status.test_job_id is None
    assert await look(scene) == ""
    scene.clock.seconds += 60
    assert await look(scene) == ALIVE, "it ended long ago"


async def test_a_pool_that_grows_does_not_take_it_and_says_why() -> None:
    scene = await standing_by()
    scene.yard.machines["gpu-3"].jobs = [7]
    pool_of(scene.kube, 3, warm_spares=True, spares=0)
    await look(scene)
    result = await reconcile_pool(scene.kube, NAMESPACE, POOL, scene.clock, scene.reports, provider=scene.yard)
    assert not result.settled
    assert f"gpu-3: {ALIVE}" in result.message
    scene.yard.machines["gpu-3"].jobs = []
    await look(scene)
    assert (await scene.phase("gpu-3"))[0] in {HostPhase.CHECKING, HostPhase.ACTIVE}


async def test_an_active_host_whose_node_was_registered_anew_may_run_its_jobs() -> None:
    scene = await standing_by()
    scene.yard.machines["gpu-1"].jobs = [7]
    node = scene.kube.peek(NODE, "gpu-1")
    assert node is not None
    scene.kube.put(NODE, {**node, "spec": {"taints": [{"key": TAINT_JOINING, "effect": "NoSchedule"}]}})
    for _ in range(3):
        await look(scene)
    assert await scene.phase("gpu-1") == (HostPhase.ACTIVE, None)
    node = scene.kube.peek(NODE, "gpu-1")
    assert node is not None
    assert not node["spec"].get("taints")
