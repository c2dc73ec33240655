"""Incidents between limits and people: budget, breaker, dry run, an uncordon, an admin's drain, a node removed."""

from __future__ import annotations

import asyncio

import pytest

from sparewheel.api.base import ObjectMeta
from sparewheel.api.faults import Action
from sparewheel.api.names import NAMESPACE
from sparewheel.api.remediation import FenceKind, NodeStage, Outcome, Remediation, RemediationSpec
from sparewheel.api.remediation_policy import Backlog, RemediationPolicySpec, RemediationPolicyStatus
from sparewheel.api.routes import WebhookRoute
from sparewheel.kube.port import NODE, POD, REMEDIATION, REMEDIATION_POLICY
from sparewheel.remediation.decide.breaker import closed
from sparewheel.remediation.decide.budget import holds_slot
from sparewheel.remediation.decide.record import ended, stage_record, started
from tests.support.fake_replacer import FakeHost, put_node
from tests.support.job_reports import reported_attempt
from tests.support.play import deletions, healed, no_trace, playing, training, waits_for
from tests.support.world import World, until


# -------------------------------------------------------------------- limits
async def test_two_nodes_of_a_pool_are_replaced_one_after_the_other() -> None:
    world = World(replicas=3, spares=2)
    async with playing(world):
        await training(world)
        world.break_gpu("gpu-1")
        world.break_gpu("gpu-2")
        holders: list[int] = []

        def done() -> bool:
            records = world.records()
            open_claims = [r for r in records if holds_slot(r)]
            holders.append(len(open_claims))
            return len(records) == 2 and all(r.status.outcome is Outcome.HEALED for r in records)

        await until(done, 240)
        assert max(holders) == 1
        assert all(ended(record.status, NodeStage.FENCED) for record in world.records())


def breaker(world: World) -> RemediationPolicyStatus:
    policy = world.kube.peek(REMEDIATION_POLICY, "default", NAMESPACE)
    assert policy is not None
    return RemediationPolicyStatus.model_validate(policy.get("status", {}))


async def close_breaker(world: World, backlog: Backlog) -> None:
    status = closed(breaker(world), "kim", "a switch", backlog, world.clock.now())
    patch = {"status": status.model_dump(mode="json", by_alias=True, exclude={"notify_test"})}
    await world.kube.merge_patch(REMEDIATION_POLICY, "default", patch, NAMESPACE, subresource="status")


def on(world: World, node: str) -> Remediation:
    return next(record for record in world.records() if record.spec.node == node)


@pytest.mark.parametrize("backlog", [Backlog.RESUME, Backlog.SKIP])
async def test_over_the_breaker_a_node_is_drained_and_told_until_a_person_closes_it(backlog: Backlog) -> None:
    world = World(replicas=3, spares=3)
    route = WebhookRoute.model_validate({"name": "hook", "urlRef": {"name": "hook", "key": "url"}})
    world.put_policy(RemediationPolicySpec(routes=[route], max_fenced_nodes=1, fenced_window_seconds=60))
    async with playing(world):
        jobs = [world.submit(index, size=1) for index in (1, 2, 3)]
        await until(lambda: all(reported_attempt(job) == 0 for job in jobs))
        await asyncio.sleep(12)
        world.break_gpu("gpu-1")
        await until(lambda: bool(world.records()) and ended(world.record().status, NodeStage.FENCED))
        world.break_gpu("gpu-2")
        await until(lambda: len(world.records()) == 2 and bool(on(world, "gpu-2").status.jobs))
        await asyncio.sleep(200)
        second = on(world, "gpu-2")
        assert second.status.fence is FenceKind.DRAIN
        assert breaker(world).breaker_open, "the window is long over, and it stays open"
        assert breaker(world).tripped_by == second.metadata.name
        (told,) = world.receiver.of("breaker.open")
        assert "sparewheel breaker close" in told["text"]
        assert "1 node fenced within 60 s, 1 allowed" in told["text"]
        assert told["actionNeeded"]
        victim = next(job for job in jobs if job.job_id == second.status.jobs[0].job_id)
        assert victim.restart_count == 0, "it runs on"
        assert "breaker" in second.status.waiting_for
        await close_breaker(world, backlog)
        await until(lambda: bool(world.receiver.of("breaker.closed")), 5)
        (ended_message,) = world.receiver.of("breaker.closed")
        assert "Closed by kim: a switch." in ended_message["note"]
        assert (ended_message["alert"], ended_message["severity"]) == (told["alert"], "info")
        assert not ended_message["actionNeeded"]
        if backlog is Backlog.SKIP:
            await asyncio.sleep(60)
            assert victim.restart_count == 0
            world.slurm.end_job(victim.job_id)
        await until(lambda: all(record.status.outcome is Outcome.HEALED for record in world.records()), 240)
        assert victim.restart_count == (1 if backlog is Backlog.RESUME else 0)
        assert on(world, "gpu-2").status.fence is (FenceKind.DOWN if backlog is Backlog.RESUME else FenceKind.DRAIN)
        assert not breaker(world).breaker_open
        assert not any(node.down or node.drain for node in world.slurm.node_table.values())


async def test_dry_run_touches_nothing_and_says_what_it_would_do() -> None:
    world = World()
    world.put_pool(dry_run=True)
    async with playing(world):
        job = await training(world)
        world.break_gpu("gpu-1")
        await until(lambda: bool(world.records()) and world.record().status.outcome is Outcome.DRY_RUN)
        await asyncio.sleep(60)
        assert "would have cordoned" in world.record().status.message
        assert not world.node("gpu-1")["spec"].get("unschedulable")
        assert job.restart_count == 0
        assert (deletions(world), world.capacity.log) == ([], [])
        assert len(world.records()) == 1


# -------------------------------------------------------------------- people in between
async def test_a_person_uncordons_and_the_incident_is_called_off_without_a_trace() -> None:
    """NVSentinel 753: gauge and annotations stale after a manual uncordon."""
    world = World(spares=0)
    async with playing(world):
        await training(world)
        world.break_gpu("gpu-1")
        await until(lambda: "spare" in waits_for(world))
        world.uncordon("gpu-1")
        await until(lambda: world.record().status.outcome is Outcome.CANCELLED)
        no_trace(world)
        await asyncio.sleep(60)
        assert len(world.records()) == 1, "the same open fault is not taken up again"
        # NVSentinel 1451: the end of the old incident must not end a new one.
        world.faults.clear()
        world.capacity.hosts["late"] = FakeHost("late")
        world.break_gpu("gpu-1", gpu=5)
        await until(lambda: any(record.status.outcome is Outcome.HEALED for record in world.records()))
        assert sorted(record.status.outcome for record in world.records()) == [Outcome.CANCELLED, Outcome.HEALED]


async def test_an_incident_whose_record_was_deleted_is_forgotten_and_its_pool_looked_after_again() -> None:
    world = World()
    async with playing(world) as controller:
        world.veto("gpu-1")
        world.break_gpu("gpu-1")
        await until(lambda: "veto" in waits_for(world))
        await asyncio.sleep(30)
        world.faults.clear()
        world.kube.drop(REMEDIATION, world.record().metadata.name, NAMESPACE)
        await until(lambda: not controller.state.taken, 5)


async def test_two_faults_on_one_node_are_one_incident() -> None:
    """NVSentinel 458: recoveries in both orders leave nothing behind."""
    world = World(spares=0)
    async with playing(world):
        await training(world)
        world.break_gpu("gpu-1", gpu=3)
        await until(lambda: "spare" in waits_for(world))
        world.break_gpu("gpu-1", code="XID 48", gpu=5, action=Action.RESET_GPU)
        await until(lambda: len(world.record().status.more_faults) == 1)
        world.capacity.hosts["late"] = FakeHost("late")
        await healed(world)
        assert len(world.records()) == 1


async def test_an_admins_drain_stays_the_admins() -> None:
    """slurm-operator 3 and PR 133, soperator 1904."""
    world = World()
    async with playing(world):
        await training(world)
        name = next(name for name, node in world.worker_nodes().items() if node == "gpu-1")
        world.slurm.node_table[name].drain = True
        world.slurm.node_table[name].reason = "bad HBM, ask Kim"
        world.break_gpu("gpu-1")
        await healed(world)
        assert world.record().status.owned.foreign_reason == "bad HBM, ask Kim"
        assert "left so" in world.record().status.message
        assert world.slurm.node_table[name].drain, "not undrained by us"


@pytest.mark.parametrize("warm", [False, True])
async def test_what_an_admin_drains_while_it_is_healed_is_left_to_the_admin_and_the_incident_ends(
    *, warm: bool
) -> None:
    """Other programs and people have reasons of their own, after the strike too."""
    world, theirs = World(warm=warm), "[node_problem] bad HBM, ask Kim"
    async with playing(world):
        await training(world, save_seconds=10.0)
        name = next(name for name, node in world.worker_nodes().items() if node == ("gpu-3" if warm else "gpu-1"))
        world.break_gpu("gpu-1")
        await until(lambda: bool(world.records()) and world.record().status.replacement.admitted_at is not None)
        await until(lambda: world.worker_nodes().get(name) == "gpu-3")
        world.slurm.node_table[name].drain = True
        world.slurm.give_reason(name, theirs)
        await healed(world, 240)
        assert world.record().status.owned.foreign_reason == theirs
        assert f"({theirs}): left so" in world.record().status.message
        await asyncio.sleep(60)
        assert (world.slurm.node_table[name].drain, world.slurm.node_table[name].reason) == (True, theirs)


async def test_a_node_removed_by_somebody_else_is_superseded_and_its_slurm_node_comes_back() -> None:
    """medik8s NHO 360, NVSentinel 1396."""
    world = World(spares=0)
    async with playing(world):
        await training(world)
        world.break_gpu("gpu-1")
        await until(lambda: "spare" in waits_for(world))
        for pod in [pod["metadata"]["name"] for pod in world._workers() if pod["spec"].get("nodeName") == "gpu-1"]:
            world.kube.drop(POD, pod, "slurm")
        world.kube.drop(NODE, "gpu-1")
        await until(lambda: "removed by somebody else" in waits_for(world))
        put_node(world.kube, "gpu-9", "gpu", [])
        await until(lambda: world.record().status.outcome is Outcome.SUPERSEDED)
        assert not any(node.down or node.drain for node in world.slurm.node_table.values())


@pytest.mark.parametrize("stage", [NodeStage.FENCED, NodeStage.DRAINED, NodeStage.REPLACED])
async def test_a_node_that_vanishes_in_any_stage_leaves_no_incident_open(stage: NodeStage) -> None:
    """NVSentinel 1396: an action on a node object already deleted."""
    world = World()
    async with playing(world):
        await training(world)
        world.break_gpu("gpu-1")
        await until(lambda: bool(world.records()) and started(world.record().status, stage))
        for pod in [pod["metadata"]["name"] for pod in world._workers() if pod["spec"].get("nodeName") == "gpu-1"]:
            world.kube.drop(POD, pod, "slurm")
        if world.kube.peek(NODE, "gpu-1") is not None:
            world.kube.drop(NODE, "gpu-1")
        await until(lambda: world.record().status.outcome is not Outcome.OPEN)
        assert not any(node.down or node.drain for node in world.slurm.node_table.values())


async def test_a_stale_record_of_a_node_that_is_well_again_does_nothing() -> None:
    """NVSentinel 1415: an old event acts after the session ended."""
    world = World()
    async with playing(world):
        await training(world)
    fault = world.break_gpu("gpu-1")
    old = Remediation(
        metadata=ObjectMeta(name="old", namespace=NAMESPACE),
        spec=RemediationSpec(
            node="gpu-1",
            node_uid=world.node("gpu-1")["metadata"]["uid"],
            boot_id="boot-gpu-1",
            pool="gpu",
            slurm_node="gpu-0",
            fault=fault,
        ),
    )
    world.kube.put(REMEDIATION, old.to_wire())
    world.faults.clear()
    async with playing(world):
        await until(lambda: world.record().status.outcome is Outcome.CANCELLED)
        assert not world.node("gpu-1")["spec"].get("unschedulable")
        assert not any(node.down or node.drain for node in world.slurm.node_table.values())


# -------------------------------------------------------------------- pods with budgets
async def test_budgets_are_honoured_until_the_deadline_and_never_hold_the_job_up() -> None:
    world = World()
    world.put_pool(drain_deadline_seconds=60)
    async with playing(world):
        job = await training(world)
        world.put_pod("web", "gpu-1", "team")
        world.kube.blocked_evictions.add(("team", "web"))
        world.break_gpu("gpu-1")
        await until(lambda: reported_attempt(job) == 1, 40)
        assert world.kube.peek(POD, "web", "team") is not None, "the job goes on while the budget still holds the pod"
        await healed(world)
        drained = stage_record(world.record().status, NodeStage.DRAINED)
        assert drained is not None
        assert drained.ended_at is not None
        assert 59 < (drained.ended_at - drained.started_at).total_seconds() < 65


async def test_the_breakers_end_is_told_though_its_incident_ended_long_before_and_the_controller_is_another() -> None:
    world = World(replicas=3, spares=3)
    world.put_policy(RemediationPolicySpec(routes=world.routes, max_fenced_nodes=1, fenced_window_seconds=60))
    async with playing(world):
        world.break_gpu("gpu-1")
        await until(lambda: bool(world.records()) and ended(world.record().status, NodeStage.FENCED))
        world.break_gpu("gpu-2")
        await until(lambda: len(world.records()) == 2)
        await until(lambda: all(record.status.outcome is Outcome.HEALED for record in world.records()), 240)
        await asyncio.sleep(60)
        assert breaker(world).breaker_open
        assert world.receiver.of("breaker.closed") == []
    await close_breaker(world, Backlog.SKIP)
    async with playing(world, world.controller("two")):
        await until(lambda: bool(world.receiver.of("breaker.closed")), 10)
        await asyncio.sleep(60)
        assert len(world.receiver.of("breaker.closed")) == 1
