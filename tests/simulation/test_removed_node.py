"""Somebody removes a Node, as a cloud's controller does when the machine ends: the pool is made whole."""

from __future__ import annotations

import asyncio

import pytest

from sparewheel.api.names import CODE_NODE_REMOVED, TAINT_FAULT
from sparewheel.api.remediation import Outcome, Trigger
from sparewheel.cli.commands.cancel import ask_to_cancel
from sparewheel.kube.port import NODE, POD, UnavailableError
from tests.support.fake_replacer import FakeHost, put_node
from tests.support.job_reports import reported_attempt
from tests.support.play import healed, playing, training
from tests.support.world import World, until


async def test_a_node_removed_while_it_waits_for_a_spare_is_replaced_when_one_appears() -> None:
    world = World(spares=0)
    async with playing(world):
        job = await training(world)
        world.break_gpu("gpu-1")
        await until(lambda: bool(world.records()) and "spare" in world.record().status.replacement.message)
        for pod in [pod["metadata"]["name"] for pod in world._workers() if pod["spec"].get("nodeName") == "gpu-1"]:
            world.kube.drop(POD, pod, "slurm")
        world.kube.drop(NODE, "gpu-1")
        world.capacity.hosts["gpu-9"] = FakeHost("gpu-9", "Spare", "")
        await until(lambda: world.record().status.outcome is Outcome.HEALED)
        await until(lambda: reported_attempt(job) == 1)
        assert world.capacity.hosts["gpu-1"].phase == "Quarantined"
        assert not any(node.down or node.drain for node in world.slurm.node_table.values())


async def test_a_struck_node_that_registers_anew_takes_no_work_and_is_replaced() -> None:
    """Its kubelet lives on and makes the Node again, without a cordon, while no spare is to be had."""
    world = World(spares=0)
    async with playing(world):
        job = await training(world)
        world.break_gpu("gpu-1")
        await until(lambda: bool(world.records()) and "spare" in world.record().status.replacement.message)
        world.kube.drop(NODE, "gpu-1")
        await asyncio.sleep(5)
        put_node(world.kube, "gpu-1", "gpu", [])
        await until(lambda: bool(world.node("gpu-1")["spec"].get("unschedulable")), 5)
        assert [taint["key"] for taint in world.node("gpu-1")["spec"]["taints"]] == [TAINT_FAULT]
        world.capacity.hosts["gpu-9"] = FakeHost("gpu-9", "Spare", "")
        await healed(world)
        await until(lambda: reported_attempt(job) == 1)
        assert world.capacity.hosts["gpu-1"].phase == "Quarantined"
        assert world.kube.peek(NODE, "gpu-1") is None
        assert len(world.records()) == 1


async def test_a_node_that_registered_anew_is_given_back_when_a_person_says_so() -> None:
    world = World(spares=0)
    async with playing(world):
        world.break_gpu("gpu-1")
        await until(lambda: bool(world.records()) and "spare" in world.record().status.replacement.message)
        world.kube.drop(NODE, "gpu-1")
        await asyncio.sleep(2)
        put_node(world.kube, "gpu-1", "gpu", [])
        await until(lambda: bool(world.node("gpu-1")["spec"].get("unschedulable")), 5)
        await ask_to_cancel(world.kube, world.record().metadata.name, "ada", "it is fine", world.clock.now())
        await until(lambda: world.record().status.outcome is Outcome.CANCELLED)
        node = world.node("gpu-1")
        assert not node["spec"]["unschedulable"]
        assert not node["spec"]["taints"]
        assert not {key for key, value in node["metadata"]["annotations"].items() if value}


# -------------------------------------------------------------------- with no incident open
async def test_a_node_removed_while_it_serves_is_replaced_after_the_grace() -> None:
    world = World()
    async with playing(world):
        job = await training(world)
        world.kube.drop(NODE, "gpu-1")
        await asyncio.sleep(58)
        assert world.records() == []
        await until(lambda: bool(world.records()), 10)
        await healed(world)
        await until(lambda: reported_attempt(job) == 1)
        await until(lambda: all(one.closed for one in world.record().status.jobs))
        record = world.record()
        assert (record.spec.trigger, record.spec.fault.code) == (Trigger.NODE_REMOVED, CODE_NODE_REMOVED)
        assert record.spec.slurm_node == "gpu-0"
        assert [one.job_id for one in record.status.jobs] == [7]
        assert record.status.jobs[0].resumed_at is not None
        bad = world.capacity.hosts["gpu-1"]
        assert bad.phase == "Quarantined"
        assert CODE_NODE_REMOVED in bad.reason
        assert {host.name for host in world.capacity.hosts.values() if host.phase == "Active"} == {"gpu-2", "gpu-3"}
        assert not any(node.down or node.drain for node in world.slurm.node_table.values())
        (told,) = world.receiver.of("incident.detected")
        assert "was removed from the cluster" in told["jobs"][0]["what"]
        assert job.restart_count == 1


async def test_the_grace_is_the_pools_own() -> None:
    world = World()
    world.put_pool(node_removed_seconds=15.0)
    async with playing(world):
        world.kube.drop(NODE, "gpu-1")
        await asyncio.sleep(13)
        assert world.records() == []
        await until(lambda: bool(world.records()), 10)


async def test_a_node_that_comes_back_within_the_grace_is_left_alone() -> None:
    world = World()
    async with playing(world):
        for _ in range(3):
            world.kube.drop(NODE, "gpu-1")
            await asyncio.sleep(45)
            put_node(world.kube, "gpu-1", "gpu", [])
            await asyncio.sleep(45)
        await asyncio.sleep(120)
        assert world.records() == []
        assert world.capacity.hosts["gpu-1"].phase == "Active"


async def test_a_look_up_that_fails_is_never_read_as_removed() -> None:
    """The Node is back, but the watch stands still and the API server does not answer."""
    world = World()
    async with playing(world) as controller:
        controller.state.nodes.pop("gpu-1")
        world.kube.fail(UnavailableError("get Node: no answer"), "get", NODE, "gpu-1", times=100_000)
        await asyncio.sleep(300)
        assert world.records() == []
        world.kube.faults.clear()
        await asyncio.sleep(120)
        assert world.records() == [], "and then it is seen to be there"


async def test_an_api_server_that_does_not_answer_makes_the_wait_begin_anew() -> None:
    world = World()
    async with playing(world):
        world.kube.drop(NODE, "gpu-1")
        await asyncio.sleep(50)
        world.kube.fail(UnavailableError("get Node: no answer"), "get", NODE, "gpu-1", times=20)
        await asyncio.sleep(60)
        assert world.records() == []
        world.kube.faults.clear()
        await asyncio.sleep(5)
        assert world.records() == [], "115 s after the removal, and less than 60 s after the look that failed"
        await healed(world)


@pytest.mark.parametrize(
    ("phase", "owner"), [("Draining", "pool/gpu"), ("Active", "pool/gpu"), ("Active", "person/gpu-1"), ("Spare", "")]
)
async def test_what_capacity_takes_out_itself_never_triggers(phase: str, owner: str) -> None:
    world = World()
    async with playing(world):
        host = world.capacity.hosts["gpu-1"]
        host.phase, host.owner = phase, owner
        await asyncio.sleep(1)
        world.kube.drop(NODE, "gpu-1")
        await asyncio.sleep(300)
        assert world.records() == []


async def test_a_pool_that_is_given_back_never_triggers() -> None:
    world = World()
    async with playing(world):
        world.put_pool(paused=True)
        await asyncio.sleep(1)
        world.kube.drop(NODE, "gpu-1")
        await asyncio.sleep(300)
        assert world.records() == []


async def test_a_replacement_of_ours_triggers_nothing_more() -> None:
    world = World()
    async with playing(world):
        await training(world)
        world.break_gpu("gpu-1")
        await healed(world)
        await asyncio.sleep(300)
        assert len(world.records()) == 1


async def test_a_controller_that_begins_after_the_removal_finds_it_too() -> None:
    world = World()
    async with playing(world):
        await training(world)
        world.kube.drop(NODE, "gpu-1")
        await asyncio.sleep(30)
    async with playing(world):
        assert world.records() == []
        await healed(world)
        assert world.record().spec.fault.code == CODE_NODE_REMOVED
        assert world.capacity.hosts["gpu-1"].phase == "Quarantined"


async def test_a_worker_that_serves_elsewhere_by_then_is_not_struck() -> None:
    world = World()
    async with playing(world):
        job = await training(world)
        put_node(world.kube, "gpu-9", "gpu", [])
        world.capacity.hosts["gpu-9"] = FakeHost("gpu-9", "Active", "gpu-9")
        world.kube.drop(NODE, "gpu-1")
        await until(lambda: world.worker_nodes().get("gpu-0") == "gpu-9")
        await until(lambda: world.slurm.node_table["gpu-0"].slurmd_start_time != world.slurm.node_table["gpu-1"])
        world.slurm.node_table["gpu-0"].down = False
        await until(lambda: reported_attempt(job) == 1)
        await healed(world)
        assert job.restart_count == 1, "the attempt on the new host goes on"
        strikes = [arguments for method, arguments in world.slurm.calls if method == "set_node_state"]
        assert not any(arguments[1] == ("DOWN",) for arguments in strikes)


async def test_a_removed_node_that_returns_after_the_fence_takes_no_work_and_is_replaced() -> None:
    world = World(spares=0)
    async with playing(world):
        job = await training(world)
        world.kube.drop(NODE, "gpu-1")
        await until(lambda: bool(world.records()) and "spare" in world.record().status.replacement.message)
        put_node(world.kube, "gpu-1", "gpu", [])
        await until(lambda: bool(world.node("gpu-1")["spec"].get("unschedulable")), 5)
        assert [taint["key"] for taint in world.node("gpu-1")["spec"]["taints"]] == [TAINT_FAULT]
        world.capacity.hosts["gpu-9"] = FakeHost("gpu-9", "Spare", "")
        await healed(world)
        await until(lambda: reported_attempt(job) == 1)
        assert world.capacity.hosts["gpu-1"].phase == "Quarantined"
        assert world.kube.peek(NODE, "gpu-1") is None
        assert not any(node.down or node.drain for node in world.slurm.node_table.values())
        assert len(world.records()) == 1


async def test_a_removal_that_a_person_called_off_is_left_so() -> None:
    world = World(spares=0)
    async with playing(world):
        world.kube.drop(NODE, "gpu-1")
        await until(lambda: bool(world.records()) and "spare" in world.record().status.replacement.message)
        await ask_to_cancel(world.kube, world.record().metadata.name, "ada", "I did it", world.clock.now())
        await until(lambda: world.record().status.outcome is Outcome.CANCELLED)
        await asyncio.sleep(300)
        assert len(world.records()) == 1
