"""A report is fresh while we see it change: whatever the clock says of the machine that wrote it."""

from __future__ import annotations

from datetime import timedelta

import pytest

from sparewheel.api.gpu_host import HostPhase
from sparewheel.api.gpu_pool import GpuPool
from sparewheel.api.names import NAMESPACE
from sparewheel.api.node_health import NodeHealthStatus
from sparewheel.capacity.heard import Reports, Watched
from sparewheel.capacity.hosts import read_host
from sparewheel.capacity.port import CapacityProvider, Check, CheckResult
from sparewheel.capacity.replacer import PoolReplacer
from tests.support.clocks import START
from tests.support.pool_world import World, new_world
from tests.support.yard import pool_of, serious_fault

OWNER = "remediation/inc"
HOURS = (-3, 0, 3)


async def standing_by(skew_hours: float) -> World:
    """A pool with a warm spare, whose agents' clocks are wrong."""
    world = new_world()
    world.yard.skew = timedelta(hours=skew_hours)
    world.yard.add("gpu-1", "gpu-2")
    pool_of(world.kube, 1, warm_spares=True)
    await world.settle()
    return world


@pytest.mark.parametrize("skew_hours", HOURS)
async def test_a_healthy_spare_passes_whatever_its_clock_says(skew_hours: float) -> None:
    world = await standing_by(skew_hours)
    assert world.active() == {"gpu-1"}, "it was let in, too"
    replacer = replacer_of(world)
    assert (await replacer.seat(world.pool(), "gpu-2")).check is Check.PASSED


@pytest.mark.parametrize("skew_hours", HOURS)
async def test_a_dead_agent_is_old_whatever_its_clock_says(skew_hours: float) -> None:
    world = await standing_by(skew_hours)
    replacer = replacer_of(world)
    world.yard.machines["gpu-2"].reports = False
    found = list[CheckResult]()
    for _ in range(3):
        world.clock.seconds += 5.5
        found.append(await replacer.seat(world.pool(), "gpu-2"))
    assert found[-1] == CheckResult(Check.WAIT, "a fresh report of the agent on gpu-2")


@pytest.mark.parametrize("skew_hours", HOURS)
async def test_an_ill_spare_is_found_whatever_its_clock_says(skew_hours: float) -> None:
    world = await standing_by(skew_hours)
    world.yard.machines["gpu-2"].faults = [serious_fault(world.clock)]
    await world.once()
    assert (await read_host(world.kube, NAMESPACE, "gpu-2")).status.phase is HostPhase.QUARANTINED


def replacer_of(world: World) -> PoolReplacer:
    async def provider_of(pool: GpuPool) -> CapacityProvider:
        return world.yard

    return PoolReplacer(world.kube, world.clock, provider_of, world.reports)


def beat(number: int) -> NodeHealthStatus:
    return NodeHealthStatus(boot_id="b", heartbeat_time=START + timedelta(seconds=number), heartbeat_interval_seconds=5)


def test_what_lies_there_at_the_first_look_is_fresh_once_it_changes() -> None:
    reports = Reports()
    reports.look("n", beat(1), 100)
    assert not reports.fresh("n", beat(1), 100)
    reports.look("n", beat(2), 104)
    assert reports.fresh("n", beat(2), 104)
    assert reports.fresh("n", beat(2), 119)
    assert not reports.fresh("n", beat(2), 119.1)


def test_one_that_appears_while_we_look_is_fresh() -> None:
    reports = Reports()
    reports.look("n", None, 100)
    reports.look("n", beat(1), 101)
    assert reports.fresh("n", beat(1), 101)


def test_what_a_watch_saw_wins_over_looks_that_are_far_apart() -> None:
    heard = {"n": Watched(beat(9).heartbeat_time, 100.0)}
    reports = Reports(heard.get)
    reports.look("n", beat(1), 60)
    reports.look("n", beat(9), 120)
    assert not reports.fresh("n", beat(9), 120), "its agent was last heard 20 s ago"
    assert reports.fresh("n", beat(9), 110)
    reports.look("m", beat(1), 60)
    reports.look("m", beat(2), 61)
    assert reports.fresh("m", beat(2), 61), "of this one the watch knows nothing yet"


def test_a_report_that_a_stuck_watch_does_not_deliver_is_no_silence() -> None:
    heard = {"n": Watched(beat(1).heartbeat_time, 100.0)}
    reports = Reports(heard.get)
    reports.look("n", beat(9), 160)
    assert reports.fresh("n", beat(9), 160), "one direct look shows that its agent is not silent"
    reports.look("n", beat(9), 176)
    assert not reports.fresh("n", beat(9), 176), "and the next ones show when it falls silent"
    other = Reports({"n": Watched(beat(9).heartbeat_time, 100.0)}.get)
    other.look("n", beat(9), 160)
    assert not other.fresh("n", beat(9), 160), "both say the same"
