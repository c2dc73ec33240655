"""The controller's parts: the keyed queue, the journal under conflicts, settings, health, pools and their leases."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass

import pytest

from sparewheel.api.base import format_time
from sparewheel.api.remediation import FenceKind
from sparewheel.kube.lease import held
from sparewheel.kube.port import LEASE, NODE
from sparewheel.remediation.controller.health import health
from sparewheel.remediation.controller.loop import Controller
from sparewheel.remediation.controller.pool_leases import PoolLeases
from sparewheel.remediation.controller.pools import LONGEST_REST_SECONDS, TURNS, Pools
from sparewheel.remediation.controller.settings import read_settings
from sparewheel.remediation.controller.watches import Watches
from sparewheel.remediation.stages.fenced import parse_version
from sparewheel.remediation.stages.incident import Incident
from sparewheel.remediation.stages.journal import Journal
from tests.support.incidents import fenced
from tests.support.world import World, until

SPACE = "sparewheel"


# -------------------------------------------------------------------- small things
@pytest.mark.parametrize(
    ("text", "version"),
    [("26.05.5", (26, 5)), ("slurm 25.11.0-1", (25, 11)), ("24.11.5", (24, 11)), ("", (0, 0)), ("unknown", (0, 0))],
)
def test_an_unknown_slurm_is_read_as_an_old_one(text: str, version: tuple[int, int]) -> None:
    assert parse_version(text) == version


def test_settings_come_from_the_command_line_and_the_pod() -> None:
    settings = read_settings(["--slurm-url", "http://x:1", "--token-file", "/t"], {"POD_NAME": "controller-0"})
    assert (settings.slurm_url, settings.identity, settings.namespace) == ("http://x:1", "controller-0", SPACE)
    assert read_settings([], {}).token_secret == "sparewheel-jwt-slurm"
    assert read_settings(["--api-calls-in-flight", "4"], {}).api_calls_in_flight == 4
    for wrong in (["--slurm-ulr", "x"], ["--api-calls-in-flight", "0"]):
        with pytest.raises(SystemExit):
            read_settings(wrong, {})


@pytest.mark.looptime
async def test_health_says_what_is_wrong() -> None:
    world = World()
    controller = world.controller()
    assert health(controller)[0] == 503
    running = asyncio.create_task(controller.run())
    await until(controller.leading)
    assert health(controller) == (200, {"leading": True, "incidents": 0, "unsynced": [], "troubles": []})
    running.cancel()
    with suppress(asyncio.CancelledError):
        await running


# -------------------------------------------------------------------- pools
@dataclass
class Result:
    settled: bool
    message: str = ""


@asynccontextmanager
async def leading(world: World) -> AsyncGenerator[tuple[Controller, PoolLeases], None]:
    """A controller that leads, and leases of another driver of its pools."""
    controller = world.controller()
    running = asyncio.create_task(controller.run())
    await until(controller.leading)
    leases = PoolLeases(world.kube, world.clock, SPACE, "me", "test")
    yield controller, leases
    await leases.drop_all()
    running.cancel()
    with suppress(asyncio.CancelledError):
        await running


@pytest.mark.looptime
async def test_a_pool_is_reconciled_under_its_lease_and_the_lease_given_back() -> None:
    world = World()
    async with leading(world) as (controller, leases):
        looked: list[str] = []

        async def reconcile(pool: str, check: object) -> Result:
            looked.append(pool)
            return Result(settled=len(looked) > 1)

        pools = Pools(controller.state, leases, reconcile, check=lambda: None)
        assert await pools.look("gpu") == 2.0, "not settled: soon again"
        await asyncio.sleep(2)
        assert await pools.look("gpu") == 60.0
        await asyncio.sleep(1)
        async with held(world.kube, "sparewheel-pool-gpu", SPACE, "pulumi", world.clock, version="test"):
            await asyncio.sleep(10)
            assert await pools.look("gpu") == 10.0, "somebody else drives"
        assert len(looked) == 2
        assert await pools.look("nothing") is None


@pytest.mark.looptime
async def test_pools_whose_looks_take_long_are_looked_at_seldom() -> None:
    """All in turn take a tenth of the time at most, where nothing is to be done."""
    world = World()
    async with leading(world) as (controller, leases):
        controller.state.pools["other"] = controller.state.pools["gpu"]

        pace = 15.0

        async def reconcile(_pool: str, _check: object) -> Result:
            await asyncio.sleep(pace)
            return Result(settled=True)

        pools = Pools(controller.state, leases, reconcile, check=lambda: None)
        assert await pools.look("gpu") == pytest.approx(300, abs=1)
        pace = 45.0
        assert await pools.look("gpu") == LONGEST_REST_SECONDS, "a spare that fell ill is seen some time"


@pytest.mark.looptime
async def test_few_pools_are_read_side_by_side_and_one_that_writes_makes_room() -> None:
    world = World()
    async with leading(world) as (controller, leases):
        names = [f"p-{number}" for number in range(TURNS + 2)]
        controller.state.pools |= dict.fromkeys(names, controller.state.pools["gpu"])
        begun, write, end = list[str](), asyncio.Event(), asyncio.Event()

        async def reconcile(pool: str, check: Callable[[], None]) -> Result:
            begun.append(pool)
            await write.wait()
            if pool == begun[0]:
                check()
            await end.wait()
            return Result(settled=True)

        pools = Pools(controller.state, leases, reconcile, check=lambda: None)
        looks = [asyncio.create_task(pools.look(name)) for name in names]
        await asyncio.sleep(5)
        assert len(begun) == TURNS
        write.set()
        await asyncio.sleep(5)
        assert len(begun) == TURNS + 1
        end.set()
        await asyncio.gather(*looks)
        assert len(begun) == TURNS + 2


@pytest.mark.looptime
async def test_a_pools_lease_that_a_dead_controller_held_is_taken_over() -> None:
    world = World()
    looked: list[str] = []

    async def reconcile(pool: str, check: object) -> Result:
        looked.append(pool)
        return Result(settled=True)

    spec = {"holderIdentity": "dead", "leaseDurationSeconds": 8, "renewTime": format_time(world.clock.now())}
    world.kube.put(LEASE, {"metadata": {"name": "sparewheel-pool-gpu"}, "spec": spec}, SPACE)
    controller = Controller(
        world.kube, world.slurm, world.capacity, world.receiver, world.clock, SPACE, "one", version="test",
        reconcile_pool=reconcile,
    )  # fmt: skip
    running = asyncio.create_task(controller.run())
    await until(lambda: looked == ["gpu"], 40)
    running.cancel()
    with suppress(asyncio.CancelledError):
        await running


@pytest.mark.looptime
async def test_a_pool_is_looked_at_while_its_incident_waits_for_a_person_alone() -> None:
    world = World()
    controller = world.controller()
    running = asyncio.create_task(controller.watches.run())
    await controller.watches.synced()
    leases = PoolLeases(world.kube, world.clock, SPACE, "me", "test")

    async def reconcile(pool: str, check: object) -> Result:
        return Result(settled=True)

    pools, record = Pools(controller.state, leases, reconcile, check=lambda: None), fenced()
    controller.state.taken[record.metadata.name] = Incident(controller.ports, Journal(world.kube, record))
    assert await pools.look("gpu") == 10.0, "it may claim a spare"
    record.status.fence = FenceKind.CORDON
    assert await pools.look("gpu") == 60.0, "its spares are looked after"
    await leases.drop_all()
    running.cancel()
    with suppress(asyncio.CancelledError):
        await running


@pytest.mark.looptime
async def test_a_node_that_goes_wakes_its_pool() -> None:
    world = World()
    woken: list[tuple[str, str]] = []
    watches = Watches(world.controller().state, lambda kind, name: woken.append((kind, name)))
    running = asyncio.create_task(watches.run())
    await watches.synced()
    assert ("pool", "gpu") in woken, "it is there"
    woken.clear()
    world.kube.drop(NODE, "gpu-1")
    await until(lambda: ("pool", "gpu") in woken)
    running.cancel()
    with suppress(asyncio.CancelledError):
        await running


@pytest.mark.looptime
async def test_an_incident_waits_its_turn_and_says_who_drives() -> None:
    world = World()
    leases = PoolLeases(world.kube, world.clock, SPACE, "me", "test")
    async with held(world.kube, "sparewheel-pool-gpu", SPACE, "pulumi", world.clock, version="test"):
        await leases.drive("gpu")
        await asyncio.sleep(3)
        assert await leases.drive("gpu") == "the lease of pool gpu, held by pulumi"
    await asyncio.sleep(3)
    assert await leases.drive("gpu") == ""
    await leases.drop_all()
