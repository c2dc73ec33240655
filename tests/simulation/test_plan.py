"""The preview against what then happens."""

from __future__ import annotations

import pytest

from sparewheel.api.names import NAMESPACE
from sparewheel.api.remediation import FenceKind
from sparewheel.kube.port import PDB, NotFoundError, UnavailableError
from sparewheel.remediation.controller.preview import look
from sparewheel.remediation.decide.plan import Preview
from sparewheel.slurm.port import SlurmUnavailableError
from tests.support.play import healed, playing, training
from tests.support.world import World


async def plan(world: World, node: str = "gpu-1") -> Preview:
    return await look(world.kube, world.slurm, world.capacity, world.clock, NAMESPACE, node)


async def test_what_it_says_is_what_happens_and_looking_changes_nothing() -> None:
    world = World()
    async with playing(world):
        await training(world)
        world.put_pod("web-0", "gpu-1", namespace="team", app="web")
        budget = {"metadata": {"name": "web"}, "spec": {"selector": {"matchLabels": {"app": "web"}}}}
        world.kube.put(PDB, {**budget, "status": {"disruptionsAllowed": 0}}, "team")
        writes, claims = len(world.kube.writes), list(world.capacity.log)
        found = await plan(world)
        assert (len(world.kube.writes), world.capacity.log) == (writes, claims)
        assert found.refused == ""
        assert [(budget.name, budget.pods) for budget in found.budgets] == [("web", ("team/web-0",))]
        world.kube.drop(PDB, "web", "team")
        world.break_gpu("gpu-1")
        await healed(world)
        record = world.record()
        assert (found.spare, found.slurm_node) == (record.status.replacement.spare_host, record.spec.slurm_node)
        assert found.fence == record.status.fence == FenceKind.DOWN
        assert [job.job_id for job in found.jobs] == [job.job_id for job in record.status.jobs] == [7]
        assert (await plan(world, "gpu-3")).spare is None, "the one spare is used"


async def test_it_says_what_it_could_not_ask() -> None:
    world = World()
    async with playing(world):
        await training(world)
        world.kube.fail(UnavailableError("cut"), "list", PDB)
        assert (await plan(world)).budgets_unknown == "cut"
        with pytest.raises(NotFoundError):
            await plan(world, "nowhere")
        world.slurm.fail(SlurmUnavailableError("slurmrestd: no answer"))
        assert (await plan(world)).jobs_unknown == "slurmrestd: no answer"
