"""A spare that doesn't answer when it is to join: it gives way, is waited for, or boots."""

from __future__ import annotations

import asyncio

from sparewheel.remediation.decide.spares import SILENT_SECONDS
from tests.support.play import healed, playing, training
from tests.support.world import World, until


async def test_a_silent_spare_gives_way_to_another_that_is_free() -> None:
    world = World(spares=2)
    world.capacity.hosts["gpu-3"].reachable = False
    async with playing(world):
        await training(world)
        world.break_gpu("gpu-1")
        await healed(world)
        replacement = world.record().status.replacement
        assert replacement.spare_host == "gpu-4"
        assert replacement.refused_hosts == []
        assert (world.capacity.hosts["gpu-3"].phase, world.capacity.hosts["gpu-3"].owner) == ("Spare", "")
        taken = (replacement.admitted_at or world.clock.now()) - world.record().spec.fault.first_seen
        assert SILENT_SECONDS <= taken.total_seconds() < SILENT_SECONDS + 15


async def test_the_last_spare_is_waited_for_while_it_is_silent() -> None:
    world = World(spares=2)
    silent = [world.capacity.hosts[name] for name in ("gpu-3", "gpu-4")]
    for host in silent:
        host.reachable = False
    async with playing(world):
        await training(world)
        world.break_gpu("gpu-1")
        await until(lambda: any(r.status.replacement.spare_host == "gpu-4" for r in world.records()), 90)
        await asyncio.sleep(5 * SILENT_SECONDS)
        assert world.record().status.replacement.spare_host == "gpu-4", "nothing better is free"
        assert "gpu-4 to answer" in world.record().status.replacement.message
        silent[1].reachable = True
        await healed(world)
        assert world.record().status.replacement.spare_host == "gpu-4"


async def test_a_spare_that_was_off_may_boot_though_another_is_free() -> None:
    world = World(spares=2)
    booting = world.capacity.hosts["gpu-3"]
    booting.power, booting.reachable = "off", False
    async with playing(world):
        await training(world)
        world.break_gpu("gpu-1")
        await until(lambda: any(r.status.replacement.spare_silent_since is not None for r in world.records()))
        await asyncio.sleep(4 * SILENT_SECONDS)
        booting.reachable = True
        await healed(world)
        assert world.record().status.replacement.spare_host == "gpu-3"
