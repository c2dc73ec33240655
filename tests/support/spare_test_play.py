"""A world whose pools test their spares, and what is looked at in it."""

from __future__ import annotations

from sparewheel.api.spare_test import SpareTestRule
from sparewheel.remediation.decide.spare_test import TEST_PREFIX
from sparewheel.slurm.memory import MemoryJob
from tests.support.world import World

ILL = 1e9


def world_with(*, warm: bool, spares: int = 1, cold: bool = True) -> World:
    world = World(warm=warm, spares=spares, grace_seconds=6)
    world.put_pool(spare_test=SpareTestRule(cold=cold, timeout_seconds=10))
    return world


def probes(world: World) -> list[MemoryJob]:
    return [job for job in world.slurm.job_table.values() if job.name.startswith(TEST_PREFIX)]


def users_only_ran_on_tested(world: World, bad_host: str) -> None:
    """No user's job was ever where the bad spare's worker was in service."""
    places = {name: node for name, node in world.worker_nodes().items() if node == bad_host}
    assert not any(set(job.nodes) & places.keys() for job in world.slurm.job_table.values() if job.user == "alice")


def left_over(world: World) -> list[str]:
    return [name for name in world.slurm.reservation_table if name.startswith(TEST_PREFIX)]
