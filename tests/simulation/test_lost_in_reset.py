"""A GPU reset that takes its host down: the rest of the rung's time is not waited for."""

from __future__ import annotations

import pytest

from sparewheel.api.faults import Action
from sparewheel.api.ladder import LadderRule, Rung, RungResult
from tests.support.job_reports import reported_attempt
from tests.support.ladder_play import REBOOT, RESET, RULE, WITH_POWER, power_cycles, power_world, taken
from tests.support.node_helpers import Helpers
from tests.support.play import healed, playing, training
from tests.support.world import until

LONG = LadderRule(rungs=[Rung(kind=RESET, timeout_seconds=900), Rung(kind=REBOOT, timeout_seconds=900)])


@pytest.mark.parametrize("power", [True, False])
@pytest.mark.parametrize("answers", [True, False])
async def test_a_host_that_is_lost_in_its_reset_does_not_wait_for_the_rest_of_it(*, answers: bool, power: bool) -> None:
    """A reset that takes the host down: power cycled where the backend can, else replaced. A helper that did not answer
    may be given up before the host counts as lost."""
    world = power_world(LONG, silent=not answers)
    helpers = world.helpers
    assert isinstance(helpers, Helpers)
    helpers.mends = {REBOOT}
    world.put_pool(**({"backend": WITH_POWER} if power else {}), node_lost_seconds=40 if answers else 60)
    async with playing(world):
        job = await training(world)
        world.break_gpu("gpu-1", code="XID 119", action=Action.RESET_GPU)
        await until(lambda: bool(helpers.done) or (bool(world.records()) and bool(taken(world))), 60)
        helpers.silent = False
        asked_at = world.clock.monotonic_seconds()
        world.lose("gpu-1")
        await healed(world, 400)
        assert world.clock.monotonic_seconds() - asked_at < 150, "not a rung's whole time"
        lost = RungResult.LOST if answers else RungResult.SILENT
        assert taken(world)[0] == (RESET, lost)
        assert taken(world)[1:] == ([(REBOOT, RungResult.SUCCEEDED)] if power else [])
        assert power_cycles(world) == power
        assert (world.capacity.hosts["gpu-1"].phase == "Active") is power
        await until(lambda: reported_attempt(job) == 1)


async def test_a_kubelet_that_answers_keeps_a_reset_its_time() -> None:
    world = power_world(RULE)
    helpers = world.helpers
    assert isinstance(helpers, Helpers)
    helpers.mends = set()
    async with playing(world):
        await training(world)
        world.break_gpu("gpu-1", code="XID 119", action=Action.RESET_GPU)
        await until(lambda: bool(helpers.done), 60)
        world.silent.add("gpu-1")
        await until(lambda: taken(world)[0][1] is not None, 100)
        (rung,) = world.record().status.ladder.rungs[:1]
        assert rung.result is RungResult.TIMED_OUT
        assert rung.ended_at is not None
        assert (rung.ended_at - rung.asked_at).total_seconds() >= rung.timeout_seconds
