"""kill -9 before and after every single write of an incident: another controller finishes it, nothing happens twice."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from typing import Literal

import pytest

from sparewheel.api.names import ANNOTATION_REPLACE_REQUEST
from sparewheel.api.remediation import NodeStage
from sparewheel.kube.port import NODE
from sparewheel.remediation.decide.record import ended
from tests.support.job_reports import reported_attempt
from tests.support.mortal import Life, mortal_controller
from tests.support.world import World, until

Scenario = Literal["fault", "crashed", "lost", "manual"]


async def play(scenario: Scenario, life: Life, *, warm: bool = False) -> World:
    """The incident under a leader that may die, and a standby that takes over."""
    world = World(grace_seconds=6, warm=warm)
    die_at, life.die_at = life.die_at, None if warm else life.die_at  # setting up is another matter
    physics = asyncio.create_task(world.run())
    leader = mortal_controller(world, life, "first")
    first = asyncio.create_task(leader.run())
    await until(leader.leading)
    second = asyncio.create_task(world.controller("second").run())
    job = world.submit()
    await until(lambda: reported_attempt(job) == 0)
    await asyncio.sleep(12)
    if warm:
        nodes = world.slurm.node_table
        await until(lambda: len(nodes) == 3 and not any(node.drain for node in nodes.values()))
        life.writes.clear()
        life.die_at = die_at
    begin(world, scenario)

    waits = 0.0
    while not world.told_all():
        await asyncio.sleep(0.1)
        waits += 0.1
        assert waits < 240, f"not healed: {[r.model_dump_json(indent=1) for r in world.records()]}"
        if life.dead.is_set():
            first.cancel()
    for task in (first, second, physics):
        task.cancel()
        with suppress(asyncio.CancelledError):
            await task
    return world


def begin(world: World, scenario: Scenario) -> None:
    if scenario == "lost":
        world.lose("gpu-1")
        return
    if scenario == "manual":
        node = world.node("gpu-1")
        node["metadata"]["annotations"] = {ANNOTATION_REPLACE_REQUEST: "kim: fan noise"}
        world.kube.put(NODE, node)
        return
    if scenario == "crashed":
        world.slurm.end_job(7, exit_code=1)
    world.break_gpu("gpu-1")


def check(world: World, scenario: Scenario) -> None:
    """What must be true however often the controller was killed."""
    record = world.record()
    job = world.slurm.job_table[7]
    assert job.restart_count == 1, "the job was struck once, and came back once"
    assert record.status.jobs[0].resumed_at is not None
    assert record.status.jobs[0].hosts_before == ["gpu-1", "gpu-2"]
    assert record.status.jobs[0].hosts_after == ["gpu-2", "gpu-3"]
    assert job.comment.count("sparewheel: ") == 1
    assert [(host.name, host.phase) for host in world.capacity.hosts.values()] == [
        ("gpu-1", "Quarantined"),
        ("gpu-2", "Active"),
        ("gpu-3", "Active"),
    ]
    assert sorted(set(world.worker_nodes().values()) - {""}) == ["gpu-2", "gpu-3"]
    out = {node.name for node in world.slurm.node_table.values() if node.down or node.drain}
    assert out == {name for name, node in world.worker_nodes().items() if not node}, "only a worker without a host"
    assert {node for kept in world.slurm.reservation_table.values() for node in kept.nodes} == out
    passed = [stage for stage in NodeStage if stage not in {NodeStage.VETOED, NodeStage.MENDED}]
    assert all(ended(record.status, stage) for stage in passed)
    assert not record.status.owned.slurm_down
    kinds = [event["event"] for event in world.receiver.events.values()]
    assert sorted(kinds) == ["incident.closed", "incident.detected", "job.resumed"], "each told once"
    if scenario == "lost":
        forced = [
            call for call in world.kube.calls if call.verb == "delete" and (call.body or {}).get("graceSeconds") == 0
        ]
        assert forced, "a dead kubelet's pod goes by force"
        assert record.status.replacement.proven_off_at is not None, "and only after the host was proven off"


async def play_warm(scenario: Scenario, life: Life) -> World:
    world = await play(scenario, life, warm=True)
    controller = asyncio.create_task(world.controller("third").run())
    physics = asyncio.create_task(world.run())
    await asyncio.sleep(20)  # the struck worker, without a host now, is reserved
    for task in (controller, physics):
        task.cancel()
        with suppress(asyncio.CancelledError):
            await task
    return world


SCENARIOS: tuple[Scenario, ...] = ("fault", "crashed", "lost", "manual")


@pytest.mark.parametrize("scenario", SCENARIOS)
async def test_undisturbed(scenario: Scenario) -> None:
    check(await play(scenario, Life()), scenario)


@pytest.mark.parametrize("scenario", SCENARIOS)
async def test_undisturbed_with_a_warm_spare(scenario: Scenario) -> None:
    world = await play_warm(scenario, Life())
    check(world, scenario)
    assert world.record().status.replacement.lifted_at is not None


@pytest.mark.timeout(600)
@pytest.mark.parametrize("when", ["before", "after"])
async def test_killed_at_every_write_with_a_warm_spare(when: Literal["before", "after"]) -> None:
    undisturbed = Life()
    await play("fault", undisturbed, warm=True)
    failures: list[str] = []
    for index, write in list(enumerate(undisturbed.writes))[::2]:
        try:
            check(await play_warm("fault", Life(die_at=index, when=when)), "fault")
        except AssertionError as error:
            failures.append(f"killed {when} write {index} ({write}): {str(error)[:1500]}")
    assert not failures, "\n".join(failures)


@pytest.mark.timeout(600)
@pytest.mark.parametrize("when", ["before", "after"])
@pytest.mark.parametrize("scenario", SCENARIOS)
async def test_killed_at_every_write(scenario: Scenario, when: Literal["before", "after"]) -> None:
    undisturbed = Life()
    await play(scenario, undisturbed)
    assert len(undisturbed.writes) > 15
    failures: list[str] = []
    every = 1 if scenario == "fault" else 3
    for index, write in list(enumerate(undisturbed.writes))[::every]:
        try:
            check(await play(scenario, Life(die_at=index, when=when)), scenario)
        except AssertionError as error:
            failures.append(f"killed {when} write {index} ({write}): {str(error)[:1500]}")
    assert not failures, "\n".join(failures)
