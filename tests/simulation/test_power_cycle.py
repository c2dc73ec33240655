"""A helper that can't be asked for the reboot: the pool's capacity backend power cycles the host, once."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from typing import Literal

import pytest

from sparewheel.api.enums import NodeActionKind
from sparewheel.api.faults import Action
from sparewheel.api.ladder import RebootBy, RungResult
from sparewheel.api.names import ANNOTATION_NODE_ACTION
from sparewheel.api.remediation import Outcome
from sparewheel.capacity.port import UnreachableError
from sparewheel.kube.memory_faults import Call
from sparewheel.kube.port import NODE, InvalidError, Json
from tests.support.ladder_play import (
    OFF,
    REBOOT,
    RESET,
    RULE,
    in_service,
    ladder_world,
    power_cycles,
    power_world,
    taken,
)
from tests.support.mortal import Life, mortal_controller
from tests.support.node_helpers import Helpers, WorldHost
from tests.support.play import call_off, healed, playing, training
from tests.support.world import World, until


def forbid_requests(call: Call) -> None:
    metadata: Json = (call.body or {}).get("metadata") or {}
    annotations: Json = metadata.get("annotations") or {}
    if call.verb == "patch" and call.resource == NODE and annotations.get(ANNOTATION_NODE_ACTION):
        raise InvalidError("patch Node gpu-1: 403 Forbidden")


@pytest.mark.parametrize(
    ("why", "action", "before"),
    [
        ("silent", Action.RESET_GPU, (RESET, RungResult.SILENT)),
        ("silent", Action.REBOOT, (REBOOT, RungResult.SILENT)),
        ("forbidden", Action.RESET_GPU, (RESET, RungResult.NOT_ASKED)),
        ("forbidden", Action.REBOOT, (REBOOT, RungResult.NOT_ASKED)),
        ("off", Action.RESET_GPU, None),
        ("off", Action.REBOOT, None),
    ],
)
async def test_where_the_helper_cannot_be_asked_the_host_is_power_cycled_and_serves_on(
    why: str, action: Action, before: tuple[NodeActionKind, RungResult] | None
) -> None:
    world = power_world(OFF if why == "off" else RULE, silent=why != "forbidden")
    if why == "forbidden":
        world.kube.before = forbid_requests
    async with playing(world):
        await training(world)
        world.break_gpu("gpu-1", code="XID 119", action=action)
        await healed(world, 180)
        helped = (REBOOT, RungResult.SUCCEEDED)
        assert taken(world) == ([before, helped] if before is not None else [helped])
        last = world.record().status.ladder.rungs[-1]
        assert last.by is RebootBy.BACKEND
        assert last.sent_at is not None
        assert world.capacity.log == [("reboot", "gpu-1")], "and no spare is touched"
        assert world.boots == {"gpu-1": 1}
        in_service(world)


async def test_a_backend_that_cannot_power_cycle_is_not_asked() -> None:
    world = ladder_world()
    Helpers(world, silent=True)
    async with playing(world):
        await training(world)
        world.break_gpu("gpu-1", code="XID 119", action=Action.RESET_GPU)
        await healed(world, 120)
        assert taken(world) == [(RESET, RungResult.SILENT)]
        assert power_cycles(world) == 0
        assert world.capacity.hosts["gpu-1"].phase == "Quarantined"


@pytest.mark.parametrize("down", [True, False])
async def test_a_host_that_hangs_in_the_helpers_reboot_is_power_cycled(down: bool) -> None:
    """``down``: it went down and does not come up again; else it doesn't even go down."""
    world = power_world(hangs=True)
    helpers = world.helpers
    assert isinstance(helpers, Helpers)

    def power_cycle(host: str) -> None:
        helpers.hangs = False
        WorldHost(host, helpers).reboot()

    world.capacity.on_reboot = power_cycle
    async with playing(world):
        await training(world)
        world.break_gpu("gpu-1", code="UVM_FATAL", action=Action.REBOOT)
        await until(lambda: bool(helpers.done), 60)
        if down:
            world.go_down("gpu-1")
        await healed(world, 400)
        assert [kind for kind, _ in taken(world)] == [REBOOT, REBOOT]
        assert taken(world)[0][1] in {RungResult.TIMED_OUT, RungResult.FAILED}
        assert taken(world)[1][1] is RungResult.SUCCEEDED
        assert world.capacity.log == [("reboot", "gpu-1")], "once, and no spare is touched"
        in_service(world)


async def test_a_host_that_rebooted_and_is_ill_still_is_not_power_cycled() -> None:
    world = power_world()
    helpers = world.helpers
    assert isinstance(helpers, Helpers)
    helpers.mends = set()
    async with playing(world):
        await training(world)
        world.break_gpu("gpu-1", code="UVM_FATAL", action=Action.REBOOT)
        await healed(world, 400)
        assert taken(world) == [(REBOOT, RungResult.TIMED_OUT)]
        assert power_cycles(world) == 0
        assert world.capacity.hosts["gpu-1"].phase == "Quarantined"


async def test_a_helper_that_rebooted_the_host_without_a_word_has_helped() -> None:
    world = power_world(silent=True)
    helpers = world.helpers
    assert isinstance(helpers, Helpers)
    async with playing(world):
        await training(world)
        world.break_gpu("gpu-1", code="UVM_FATAL", action=Action.REBOOT)
        await until(lambda: bool(world.records()) and taken(world) == [(REBOOT, None)], 60)
        await asyncio.sleep(40)
        WorldHost("gpu-1", helpers).reboot()  # its answer was lost
        await healed(world, 200)
        assert taken(world) == [(REBOOT, RungResult.SUCCEEDED)]
        assert "(its helper had not answered)" in world.record().status.message
        assert world.capacity.log == [], "no power cycle on top, and no spare is touched"
        in_service(world)


async def test_while_another_drives_the_pool_the_power_cycle_waits() -> None:
    """The replacement would wait for the same lease."""
    world = power_world(OFF, silent=True)

    async def drive(_pool: str) -> str:
        return "another driver of the pool"

    async with playing(world) as controller:
        await training(world)
        free, controller.ports.drive = controller.ports.drive, drive
        world.break_gpu("gpu-1", code="UVM_FATAL", action=Action.REBOOT)
        await asyncio.sleep(150)
        assert "another driver of the pool" in world.record().status.waiting_for
        assert taken(world) == []
        controller.ports.drive = free
        await healed(world, 120)
        assert taken(world) == [(REBOOT, RungResult.SUCCEEDED)]
        assert world.capacity.log == [("reboot", "gpu-1")], "and no spare is touched"


async def test_a_backend_that_refuses_leads_to_the_replacement() -> None:
    world = power_world(silent=True)
    async with playing(world):
        await training(world)
        world.capacity.refused["gpu-1"] = "machine gpu-1: the power switch refuses the key"
        world.break_gpu("gpu-1", code="UVM_FATAL", action=Action.REBOOT)
        await until(lambda: bool(world.records()) and len(taken(world)) == 2 and taken(world)[1][1] is not None, 150)
        world.capacity.refused.clear()
        await healed(world, 120)
        assert taken(world)[1] == (REBOOT, RungResult.REFUSED)
        assert "refuses the key" in world.record().status.ladder.why
        assert world.capacity.hosts["gpu-1"].phase == "Quarantined"


@pytest.mark.parametrize("done", [True, False])
async def test_an_answer_that_is_lost_is_no_reason_to_do_it_again(done: bool) -> None:
    world = power_world(silent=True)
    does = world.capacity.on_reboot

    def lost(host: str) -> None:
        if done:
            does(host)
        raise UnreachableError("the power switch did not answer")

    world.capacity.on_reboot = lost
    async with playing(world):
        await training(world)
        world.break_gpu("gpu-1", code="UVM_FATAL", action=Action.REBOOT)
        await healed(world, 400)
        assert power_cycles(world) == 1
        assert taken(world)[1] == (REBOOT, RungResult.SUCCEEDED if done else RungResult.TIMED_OUT)
        assert world.capacity.hosts["gpu-1"].phase == ("Active" if done else "Quarantined")


async def test_called_off_in_the_middle_of_a_power_cycle_it_is_given_back_once_it_is_up() -> None:
    world = power_world(OFF, silent=True)
    async with playing(world):
        await training(world)
        world.break_gpu("gpu-1", code="UVM_FATAL", action=Action.REBOOT)
        await until(lambda: power_cycles(world) == 1)
        await call_off(world)
        await asyncio.sleep(15)
        assert world.record().status.outcome is Outcome.OPEN, "a node in the middle of a reboot is not given back"
        await until(lambda: world.record().status.outcome is Outcome.CANCELLED, 60)
        in_service(world)


@pytest.mark.parametrize("when", ["before", "after"])
@pytest.mark.parametrize("earlier", [0, 1])
async def test_a_controller_that_is_killed_at_it_never_makes_two(
    when: Literal["before", "after"], earlier: int
) -> None:
    """Killed at the power cycle, or at the line of the journal that comes before it."""
    undisturbed = Life()
    await _play(undisturbed)
    (at,) = [index for index, write in enumerate(undisturbed.writes) if write.startswith("reboot")]
    world = await _play(Life(die_at=at - earlier, when=when))
    done = {(0, "before"): 0, (0, "after"): 1, (1, "before"): 1, (1, "after"): 0}[(earlier, when)]
    assert power_cycles(world) == done, "what was written down and may have been done is not done again"
    result = RungResult.SUCCEEDED if done else RungResult.TIMED_OUT
    assert taken(world) == [(REBOOT, result)]
    assert world.capacity.hosts["gpu-1"].phase == ("Active" if done else "Quarantined")


async def _play(life: Life) -> World:
    world = power_world(OFF, silent=True)
    leader = mortal_controller(world, life, "first")
    tasks = [asyncio.create_task(world.run()), asyncio.create_task(leader.run())]
    try:
        await until(leader.leading)
        tasks.append(asyncio.create_task(world.controller("second").run()))
        await training(world)
        world.break_gpu("gpu-1", code="UVM_FATAL", action=Action.REBOOT)
        async with asyncio.timeout(400):
            while not world.told_all():
                if life.dead.is_set():
                    tasks[1].cancel()
                await asyncio.sleep(0.5)
    finally:
        for task in tasks:
            task.cancel()
        for task in tasks:
            with suppress(asyncio.CancelledError):
                await task
    return world
