"""A drill from its choice to its end, and when it is no success."""

from __future__ import annotations

import pytest

from sparewheel.api.base import ObjectMeta
from sparewheel.api.gpu_host import GpuHost, GpuHostSpec, GpuHostStatus, HostPhase
from sparewheel.api.gpu_pool import DrillResult, GpuPool
from sparewheel.api.names import NAMESPACE
from sparewheel.api.node_health import NodeHealth
from sparewheel.api.remediation import Outcome
from sparewheel.cli.commands.drill import noted, play
from sparewheel.cli.common import CommandError
from sparewheel.kube.port import GPU_HOST, GPU_POOL, NODE_HEALTH
from sparewheel.remediation.decide.drill import why_not_drill
from sparewheel.remediation.stages.views import node_view
from tests.support.incidents import fenced, pool
from tests.support.play import playing, training
from tests.support.world import POOL, World


def put_hosts(world: World, *, free: bool = True) -> None:
    for host in world.capacity.hosts.values():
        phase = HostPhase(host.phase) if free or host.phase != "Spare" else HostPhase.QUARANTINED
        spec = GpuHostSpec(pool=POOL, host=host.name, provider_id=f"machines://{host.name}")
        body = GpuHost(metadata=ObjectMeta(name=host.name), spec=spec, status=GpuHostStatus(phase=phase))
        world.kube.put(GPU_HOST, body.to_wire(), NAMESPACE)


async def drill(world: World, node: str = "", *, busy: bool = False, limit: float = 120.0, works: bool = True) -> str:
    async def hit(name: str) -> str:
        if works:
            world.break_gpu(name, drill=True)
        return "written"

    record = await play(world.kube, world.clock, hit, node, limit, busy=busy)
    assert record.status.outcome is Outcome.HEALED
    assert record.spec.fault.drill
    return record.spec.node


async def test_an_idle_node_is_chosen_and_healed() -> None:
    world = World()
    async with playing(world):
        job = await training(world, size=1)
        put_hosts(world)
        (busy,) = (world.worker_nodes()[name] for name in job.nodes)
        assert await drill(world) != busy
        assert job.restart_count == 0


async def test_a_busy_node_only_when_that_is_said() -> None:
    world = World()
    async with playing(world):
        await training(world)
        put_hosts(world)
        with pytest.raises(CommandError, match="job 7 runs on node gpu-1; choose an idle one, or add --busy"):
            await drill(world, "gpu-1")
        with pytest.raises(CommandError, match="no node may be drilled now: job 7 runs on node gpu-1"):
            await drill(world)
        assert await drill(world, "gpu-1", busy=True) == "gpu-1"


async def test_no_spare_no_drill() -> None:
    world = World()
    async with playing(world):
        put_hosts(world, free=False)
        with pytest.raises(CommandError, match="has no free spare") as caught:
            await drill(world)
        assert str(caught.value).count("has no free spare") == 1, "a reason that all nodes share is said once"
        assert world.records() == []


async def test_what_is_not_healed_in_time_is_a_failure() -> None:
    world = World()
    async with playing(world):
        put_hosts(world)
        with pytest.raises(CommandError, match="opened no incident"):
            await drill(world, works=False, limit=10)
        world.capacity.hosts["gpu-3"].fit = False
        with pytest.raises(CommandError, match="is Open after 60 s, not Healed: a"):
            await drill(world, limit=60)


async def test_what_keeps_a_node_from_a_drill() -> None:
    world = World()
    async with playing(world):
        put_hosts(world)
        view = node_view(world.node("gpu-1"))
        body = world.kube.peek(NODE_HEALTH, "gpu-1")
        assert body is not None
        health = NodeHealth.from_wire(body)
        host = GpuHost(metadata=ObjectMeta(name="s"), spec=GpuHostSpec(pool="gpu", host="s", provider_id="x"))

        def why(**changes: object) -> str:
            known = {"pools": [pool()], "hosts": [host], "healths": [health], "records": [], "earlier": [], **changes}
            return why_not_drill(view, **known)  # pyright: ignore[reportArgumentType]

        assert why() == ""
        assert "is paused" in why(pools=[pool(paused=True)])
        assert "in dry run" in why(pools=[pool(dry_run=True)])
        assert "gpu-7-xid-79-0 of pool gpu is open" in why(records=[fenced()])
        assert "does not say which jobs" in why(healths=[])
        assert "is silent" in why(earlier=[health])
        unknown = health.model_copy(deep=True)
        unknown.status.jobs_observed_time = None
        assert "does not say which jobs" in why(healths=[unknown])


async def test_a_scheduled_one_is_noted_in_the_pools_status_whichever_way_it_went() -> None:
    world = World()

    def last() -> DrillResult | None:
        body = world.kube.peek(GPU_POOL, POOL, NAMESPACE)
        assert body is not None
        return GpuPool.from_wire(body).status.last_drill

    async def hit(name: str) -> str:
        world.break_gpu(name, drill=True)
        return "written"

    async with playing(world):
        put_hosts(world, free=False)
        with pytest.raises(CommandError, match="has no free spare"):
            await noted(
                world.kube, world.clock, POOL, play(world.kube, world.clock, hit, "", 60, busy=False, pool=POOL)
            )
        failed = last()
        assert failed is not None
        assert (failed.passed, failed.remediation) == (False, "")
        assert "has no free spare" in failed.message
        put_hosts(world)
        drilled = play(world.kube, world.clock, hit, "", 120, busy=False, pool=POOL)
        record = await noted(world.kube, world.clock, POOL, drilled)
        passed = last()
        assert passed is not None
        assert (passed.passed, passed.remediation) == (True, record.metadata.name)
        assert passed.time > failed.time


async def test_a_node_of_another_pool_is_not_drilled() -> None:
    world = World()

    async def hit(name: str) -> str:
        raise AssertionError(f"{name} was hit")

    async with playing(world):
        put_hosts(world)
        with pytest.raises(CommandError, match="there is no pool other"):
            await play(world.kube, world.clock, hit, "", 60, busy=False, pool="other")
        with pytest.raises(CommandError, match="node gpu-1 is not in pool other"):
            await play(world.kube, world.clock, hit, "gpu-1", 60, busy=False, pool="other")
