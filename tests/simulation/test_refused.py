"""A provider or the API server refuses: each try ends, the record says what was refused, and it is told once."""

from __future__ import annotations

import asyncio

import pytest

from sparewheel.api.faults import Action
from sparewheel.api.remediation import NodeStage
from sparewheel.capacity.port import UnreachableError
from sparewheel.kube.port import POD, InvalidError
from sparewheel.remediation.decide import spares
from sparewheel.remediation.decide.record import started
from sparewheel.remediation.decide.spares import SILENT_SECONDS
from tests.support.job_reports import reported_attempt
from tests.support.ladder_play import ladder_world
from tests.support.node_helpers import Helpers
from tests.support.play import healed, playing, training, waits_for
from tests.support.world import World, until

REFUSAL = "host {host}: the provider answered 403; check its key"


def shown(world: World) -> str:
    """All that the record says is waited for."""
    return f"{waits_for(world)} {world.record().status.replacement.message}" if world.records() else ""


def waiting_messages(world: World) -> list[str]:
    return [event["text"] for event in world.receiver.of("incident.waiting")]


async def test_a_spare_that_its_backend_refuses_gives_way_to_another_and_is_not_blamed() -> None:
    world = World(spares=2)
    world.capacity.refused["gpu-3"] = REFUSAL.format(host="gpu-3")
    world.capacity.hosts["gpu-3"].power = "off"
    async with playing(world):
        await training(world)
        world.break_gpu("gpu-1")
        await until(lambda: "gpu-3 to be let in" in shown(world), 20)
        await healed(world)
        replacement = world.record().status.replacement
        assert (replacement.spare_host, replacement.refused_hosts) == ("gpu-4", [])
        taken = (replacement.admitted_at or world.clock.now()) - world.record().spec.fault.first_seen
        assert SILENT_SECONDS <= taken.total_seconds() < SILENT_SECONDS + 15
        assert world.capacity.hosts["gpu-3"].phase == "Spare"


async def test_the_only_spare_is_asked_again_under_the_same_claim_and_people_are_told_once(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(spares, "JOIN_DEADLINE_SECONDS", 60.0)
    world = World()
    world.capacity.refused["gpu-3"] = "host gpu-3: the provider answered 409 busy"
    async with playing(world):
        await training(world)
        world.break_gpu("gpu-1")
        await until(lambda: "409 busy" in shown(world), 20)
        await asyncio.sleep(100)
        assert "gpu-3" in shown(world)
        assert len(waiting_messages(world)) == 1
        assert ("retire", "gpu-1") not in world.capacity.log, "nothing can take its place yet"
        assert world.capacity.hosts["gpu-3"].phase == "Spare", "never quarantined for what its backend says"
        claims = {owner for verb, owner in world.capacity.log if verb == "claim_owner"}
        assert claims == {f"remediation/{world.record().metadata.name}"}
        world.capacity.refused.clear()
        await healed(world)


async def test_a_backend_that_lists_no_machines_is_shown() -> None:
    world = World()
    world.capacity.refused[""] = REFUSAL.format(host="of pool gpu")
    async with playing(world):
        await training(world)
        world.break_gpu("gpu-1")
        await until(lambda: "the capacity backend (host of pool gpu: the provider answered 403" in shown(world), 20)
        await until(lambda: len(waiting_messages(world)) == 1, 60)
        assert "403" in waiting_messages(world)[0]
        world.capacity.refused.clear()
        await healed(world)
        assert shown(world).strip() == ""


async def test_a_bad_host_that_cannot_be_taken_out_is_shown_while_the_job_goes_on() -> None:
    world = World()
    world.capacity.refused["gpu-1"] = REFUSAL.format(host="gpu-1")
    async with playing(world):
        job = await training(world)
        world.break_gpu("gpu-1")
        await until(lambda: reported_attempt(job) == 1)
        await until(lambda: "gpu-1: the provider answered 403" in waits_for(world), 30)
        await until(lambda: len(waiting_messages(world)) == 1, 60)
        world.capacity.refused.clear()
        await healed(world)


async def test_what_the_api_server_forbids_is_shown() -> None:
    world = World()
    world.kube.fail(InvalidError("delete Pod slurm/gpu-0: 403 forbidden"), "delete", POD, times=10_000)
    async with playing(world):
        await training(world)
        world.break_gpu("gpu-1")
        await until(lambda: "the API server (delete Pod slurm/gpu-0: 403 forbidden)" in waits_for(world), 60)
        await until(lambda: len(waiting_messages(world)) == 1, 60)
        world.kube.faults.clear()
        await healed(world)


OTHER = "cluster c: AutoClusters acts on XID_79, and a node has one healer, never two; nothing was done"


async def test_where_another_heals_the_node_is_not_fenced_and_people_hear_of_it() -> None:
    """Switched on at run time: a fence that nothing may follow would only end the job."""
    world = World()
    world.capacity.others = OTHER
    async with playing(world):
        job = await training(world)
        world.break_gpu("gpu-1")
        await until(lambda: len(waiting_messages(world)) == 1, 60)
        await asyncio.sleep(120)
        assert OTHER in shown(world)
        assert len(waiting_messages(world)) == 1
        node = world.node("gpu-1")
        assert not node["spec"].get("unschedulable")
        assert not node["spec"]["taints"]
        assert not any(slurm.down or slurm.drain for slurm in world.slurm.node_table.values())
        assert (job.state, job.restart_count) == ("RUNNING", 0)
        world.capacity.others = ""
        await healed(world)
        await until(lambda: reported_attempt(job) == 1)


NO_ANSWER = "AutoClusters configuration of cluster c: no answer"


def is_fenced(world: World) -> bool:
    """The node's own marks, and Slurm's."""
    down = any(slurm.down for slurm in world.slurm.node_table.values())
    return bool(world.node("gpu-1")["spec"].get("unschedulable")) and down


@pytest.mark.parametrize("how", ["an error", "silence", "the key's Secret"])
@pytest.mark.parametrize("told_before", [True, False])
async def test_a_capacity_side_that_cannot_be_read_holds_up_no_fence_and_no_job(how: str, told_before: bool) -> None:
    """Only the replacement waits, and people hear of it."""
    world = World(replicas=3)
    async with playing(world) as controller:
        if told_before:
            controller.ports.healers["gpu"] = ""
        job = await training(world, size=2)
        (struck,) = {node for name, node in world.worker_nodes().items() if name in job.nodes} - {"gpu-2", "gpu-3"}
        assert struck == "gpu-1"
        failures = {"an error": UnreachableError(NO_ANSWER), "the key's Secret": InvalidError("get Secret: 403")}
        world.capacity.others = failures.get(how, asyncio.Event())
        world.capacity.refused[""] = NO_ANSWER
        world.break_gpu("gpu-1")
        await until(lambda: is_fenced(world), 6)
        await until(lambda: reported_attempt(job) == 1, 40)
        await until(lambda: len(waiting_messages(world)) == 1, 60)
        assert NO_ANSWER in waiting_messages(world)[0]
        assert not any(verb in {"claim", "retire"} for verb, _ in world.capacity.log)
        world.capacity.others = ""
        world.capacity.refused.clear()
        await healed(world)


async def test_a_healer_that_was_known_to_act_does_so_until_it_is_told_otherwise() -> None:
    world = World()
    async with playing(world):
        job = await training(world)
        world.capacity.others = OTHER
        world.break_gpu("gpu-1")
        await until(lambda: OTHER in shown(world), 20)
        world.capacity.others = UnreachableError(NO_ANSWER)
        await asyncio.sleep(120)
        assert not world.node("gpu-1")["spec"].get("unschedulable")
        assert (job.state, job.restart_count) == ("RUNNING", 0)
        world.capacity.others = ""
        await healed(world)


async def test_no_rung_is_taken_while_it_cannot_be_told_who_heals() -> None:
    world = ladder_world()
    helpers = Helpers(world)
    world.capacity.others = UnreachableError(NO_ANSWER)
    async with playing(world):
        await training(world)
        world.break_gpu("gpu-1", code="XID 119", action=Action.RESET_GPU)
        await until(lambda: NO_ANSWER in shown(world), 30)
        await asyncio.sleep(60)
        assert is_fenced(world)
        assert (helpers.done, world.record().status.ladder.rungs) == ([], [])
        world.capacity.others = ""
        await healed(world)
        assert helpers.done == ["gpu-1: reset 0000:03:00"]


async def test_a_healer_that_is_switched_on_after_the_fence_stops_no_unfenced_half() -> None:
    """What was begun goes on to where the backend refuses it, and the strike is not left half done."""
    world = World()
    async with playing(world):
        job = await training(world)
        world.break_gpu("gpu-1")
        await until(lambda: bool(world.records()) and started(world.record().status, NodeStage.FENCED))
        world.capacity.others = OTHER
        await until(lambda: reported_attempt(job) == 1)
