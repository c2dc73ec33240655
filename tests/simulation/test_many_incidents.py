"""Many nodes fail at once: what their incidents look at in Slurm is asked once for all of them."""

from __future__ import annotations

import asyncio
from collections import Counter

from sparewheel.api.remediation import NodeStage, Outcome
from sparewheel.api.remediation_policy import RemediationPolicySpec
from sparewheel.remediation.decide.record import ended
from tests.support.job_reports import reported_attempt
from tests.support.play import playing
from tests.support.world import World, until

STRUCK = 16


async def test_while_they_wait_slurm_is_asked_at_a_pace_that_does_not_grow_with_them() -> None:
    world = World(replicas=3 * STRUCK, spares=0)
    world.put_policy(RemediationPolicySpec(routes=world.routes, max_fenced_nodes=1000, max_fenced_percent=100))
    async with playing(world):
        jobs = [world.submit(number, 3, save_seconds=15.0) for number in range(1, STRUCK + 1)]
        await until(lambda: all(reported_attempt(job) == 0 for job in jobs))
        await asyncio.sleep(12)
        places = world.worker_nodes()
        for job in jobs:
            world.break_gpu(places[job.nodes[0]])
        await until(lambda: sum(ended(one.status, NodeStage.FENCED) for one in world.records()) == STRUCK, 60)
        await asyncio.sleep(1)
        before = len(world.slurm.calls)
        seconds = 10
        await asyncio.sleep(seconds)
        asked = Counter(method for method, _ in world.slurm.calls[before:])
        looks = {method: asked[method] for method in ("job", "jobs", "nodes", "reservations")}
        assert looks["job"] == 0, looks
        assert 2 <= looks["jobs"] <= 2 * seconds, looks
        assert looks["reservations"] <= 2 * seconds, looks
        assert looks["nodes"] <= 2 * seconds, looks
        await until(lambda: all(job.state in {"PENDING", "RUNNING"} and job.restart_count == 1 for job in jobs), 60)
        assert all(one.status.outcome is Outcome.OPEN for one in world.records())
