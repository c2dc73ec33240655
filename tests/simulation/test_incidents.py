"""Incidents as they go wrong: veto, no spare, lost host, early crash, breaker, people in between; in memory."""

from __future__ import annotations

import asyncio

import pytest

from sparewheel.api.base import ObjectMeta
from sparewheel.api.faults import Action
from sparewheel.api.names import ANNOTATION_REMEDIATION, NAMESPACE, SLINKY_NODE_CORDON_REASON, TAINT_FAULT
from sparewheel.api.remediation import FenceKind, NodeStage, Outcome, Remediation, RemediationSpec
from sparewheel.api.remediation_policy import RemediationPolicySpec
from sparewheel.capacity.port import CapacityError
from sparewheel.kube.port import NODE, POD, REMEDIATION, REMEDIATION_POLICY, UnavailableError
from sparewheel.remediation.decide.record import ended, stage_record, started
from sparewheel.slurm.port import SlurmUnavailableError
from tests.support.fake_replacer import FakeHost, put_node
from tests.support.play import healed, playing, training
from tests.support.world import World, reported_attempt, until

pytestmark = pytest.mark.looptime


def deletions(world: World) -> list[str]:
    return [f"{call.verb} {call.name}" for call in world.kube.writes if call.verb in {"delete", "evict"}]


def waits_for(world: World) -> str:
    return world.record().status.waiting_for if world.records() else ""


# -------------------------------------------------------------------- the usual way
async def test_the_order_of_things() -> None:
    world = World()
    async with playing(world):
        job = await training(world)
        world.break_gpu("gpu-1")
        await healed(world)
        await until(lambda: all(job.closed for job in world.record().status.jobs))
        record = world.record()
        replacement, owned_at = record.status.replacement, record.status.owned.slurm_struck_at
        assert owned_at is not None
        assert replacement.claimed_at is not None
        assert replacement.worker_deleted_at is not None
        assert replacement.slurm_restored_at is not None
        assert record.status.jobs[0].resumed_at is not None
        assert (owned_at - record.spec.fault.first_seen).total_seconds() < 1.0, "fenced within a second of the report"
        assert replacement.claimed_at <= replacement.worker_deleted_at < replacement.slurm_restored_at
        assert (record.status.jobs[0].resumed_at - record.spec.fault.first_seen).total_seconds() < 15.0
        assert job.restart_count == 1
        (told,) = world.receiver.of("incident.detected")
        assert told["jobs"][0]["jobId"] == 7, "the first message says what becomes of the job"
        assert "no action needed" in told["jobs"][0]["what"]


async def test_a_job_may_pend_or_be_cancelled_and_the_node_heals_all_the_same() -> None:
    world = World()
    async with playing(world):
        job = await training(world)
        world.break_gpu("gpu-1")
        await until(lambda: job.state == "PENDING")
        world.slurm.cancel(7)
        await healed(world)
        await until(lambda: world.record().status.jobs[0].closed)
        assert not world.record().status.jobs[0].not_requeued_reason


async def test_a_job_that_must_not_be_requeued_is_told_with_the_reason() -> None:
    world = World()
    async with playing(world):
        await training(world, requeue=False)
        world.break_gpu("gpu-1")
        await healed(world)
        job = world.record().status.jobs[0]
        assert job.closed
        assert "--no-requeue" in world.slurm.job_table[7].comment
        (told,) = world.receiver.of("incident.detected")
        assert told["actionNeeded"] is True
        assert "no action needed" not in told["jobs"][0]["what"]


async def test_a_silent_clock_is_no_matter_and_a_late_receiver_is_told_once() -> None:
    world = World()
    world.receiver.failing = 3
    async with playing(world):
        await training(world)
        world.break_gpu("gpu-1")
        await healed(world)
        await until(lambda: len(world.receiver.of("incident.detected")) == 1)
        tries = [key for key in world.receiver.tries if "incident.detected" in key]
        assert len(set(tries)) == 1, "every try carries the same key"
        fenced = stage_record(world.record().status, NodeStage.FENCED)
        assert fenced is not None
        assert fenced.ended_at is not None
        assert (fenced.ended_at - world.record().spec.fault.first_seen).total_seconds() < 1.0, "in nobody's way"


# -------------------------------------------------------------------- veto, no spare
async def test_a_veto_holds_and_its_end_lets_go_on() -> None:
    world = World()
    async with playing(world):
        job = await training(world)
        world.veto("gpu-1")
        world.break_gpu("gpu-1")
        await until(lambda: "veto" in waits_for(world))
        await asyncio.sleep(120)
        assert deletions(world) == [], "nothing is deleted, however long it lasts"
        assert world.capacity.log == [], "and no spare is taken"
        assert world.node("gpu-1")["spec"]["unschedulable"], "but it stays fenced"
        assert job.restart_count == 1, "and its job is requeued"
        assert len(world.receiver.of("incident.waiting")) == 1
        world.kube.drop(POD, "eval", "other")
        await healed(world)
        vetoed = stage_record(world.record().status, NodeStage.VETOED)
        assert vetoed is not None
        assert vetoed.ended_at is not None
        assert reported_attempt(job) in {0, 1}


async def test_a_veto_that_comes_after_the_claim_still_wins() -> None:
    world = World()
    async with playing(world):
        await training(world, save_seconds=10.0)
        world.break_gpu("gpu-1")
        await until(lambda: bool(world.records()) and world.record().status.replacement.claimed_at is not None)
        world.veto("gpu-1")
        await until(lambda: "veto" in waits_for(world))
        await asyncio.sleep(60)
        assert deletions(world) == []


async def test_a_look_up_that_fails_counts_as_a_veto() -> None:
    world = World()
    async with playing(world):
        await training(world)
        await asyncio.sleep(1)
        world.kube.fail(UnavailableError("list Pod: 503"), "list", POD, times=10_000)
        world.faults.clear()
        world.break_gpu("gpu-1")
        await asyncio.sleep(60)
        assert deletions(world) == []
        world.kube.faults.clear()
        await healed(world)


async def test_no_spare_waits_and_goes_on_when_one_appears() -> None:
    world = World(spares=0)
    async with playing(world):
        job = await training(world)
        world.break_gpu("gpu-1")
        await until(lambda: "spare" in waits_for(world))
        await asyncio.sleep(120)
        assert deletions(world) == []
        assert world.node("gpu-1")["spec"]["unschedulable"]
        assert len(world.receiver.of("incident.waiting")) == 1, "told once"
        assert job.state == "PENDING"
        world.capacity.hosts["late"] = FakeHost("late")
        await healed(world)
        await until(lambda: reported_attempt(job) == 1)


async def test_a_spare_that_is_not_fit_is_refused_and_the_next_one_taken() -> None:
    world = World(spares=2)
    world.capacity.hosts["gpu-3"].fit = False
    async with playing(world):
        await training(world)
        world.break_gpu("gpu-1")
        await healed(world)
        assert world.record().status.replacement.refused_hosts == ["gpu-3"]
        assert world.record().status.replacement.spare_host == "gpu-4"
        assert world.capacity.hosts["gpu-3"].phase == "Quarantined"


async def test_a_provider_that_refuses_is_asked_again_and_the_wait_is_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    """NVSentinel 1808: a provider's error leaves the repair in progress for ever."""
    world = World()
    refusals = 3
    join = world.capacity.join_spare

    async def refusing(*args: object) -> str:
        nonlocal refusals
        if refusals:
            refusals -= 1
            raise CapacityError("host gpu-3: 403 from the provider; check its key")
        return await join(*args)  # type: ignore[arg-type]

    monkeypatch.setattr(world.capacity, "join_spare", refusing)
    async with playing(world):
        await training(world)
        world.break_gpu("gpu-1")
        await healed(world)


# -------------------------------------------------------------------- lost hosts
async def test_a_lost_host_that_is_off_is_replaced_without_waiting_for_the_grace() -> None:
    world = World(grace_seconds=100)
    async with playing(world):
        job = await training(world)
        world.lose("gpu-1", power="off")
        await until(lambda: bool(world.records()), 90)
        assert world.record().spec.fault.code == "NODE_LOST"
        await healed(world, 60)
        await until(lambda: reported_attempt(job) == 1)
        assert all("power_off=False" in what for verb, what in world.capacity.log if verb == "prove_off")


async def test_a_lost_host_that_is_on_is_given_the_grace_and_then_switched_off() -> None:
    world = World(grace_seconds=20)
    async with playing(world):
        await training(world)
        world.lose("gpu-1", power="on")
        await healed(world, 240)
        record = world.record()
        proven, struck = record.status.replacement.proven_off_at, record.status.owned.slurm_struck_at
        assert proven is not None
        assert struck is not None
        assert (proven - struck).total_seconds() >= 20


async def test_what_cannot_be_proven_off_is_never_forced() -> None:
    """karpenter 2042, CAPI 2998: a repair that waits on a dead node; here it says what for."""
    world = World(grace_seconds=10)
    world.capacity.can_power = False
    async with playing(world):
        await training(world)
        world.lose("gpu-1", power="unknown")
        await until(lambda: "proof" in waits_for(world), 240)
        await asyncio.sleep(120)
        forced = [
            call for call in world.kube.writes if call.verb == "delete" and (call.body or {}).get("graceSeconds") == 0
        ]
        assert forced == []
        assert len(world.receiver.of("incident.waiting")) == 1
        world.capacity.hosts["gpu-1"].power = "off"
        await healed(world)


async def test_a_silent_agent_with_a_living_kubelet_is_no_lost_node() -> None:
    world = World()
    async with playing(world):
        await training(world)
        world.silent.add("gpu-1")
        await asyncio.sleep(300)
        assert world.records() == []


async def test_an_api_server_that_did_not_answer_makes_no_node_lost() -> None:
    """aws-parallelcluster 4874: healthy nodes replaced because the control plane was slow."""
    world = World()
    async with playing(world):
        await training(world)
        for name in ("gpu-1", "gpu-2"):  # nobody could write while it was down
            world.silent.add(name)
            world.kube.dead_nodes.add(name)
        world.kube.fail(UnavailableError("no answer"), times=100_000)
        await asyncio.sleep(300)
        world.kube.faults.clear()
        await asyncio.sleep(3)
        world.silent.clear()
        world.kube.dead_nodes.clear()
        await asyncio.sleep(120)
        assert world.records() == []


# -------------------------------------------------------------------- early crash, older Slurm, Slurm away
@pytest.mark.parametrize("expedited", [True, False])
async def test_a_job_that_crashed_before_the_fence_comes_back_ahead_of_a_rival(*, expedited: bool) -> None:
    world = World()
    async with playing(world):
        job = await training(world, expedited=expedited)
        world.slurm.end_job(7, exit_code=1)
        world.break_gpu("gpu-1")
        await asyncio.sleep(0.5)
        rival = world.submit(8)
        await healed(world)
        await until(lambda: reported_attempt(job) == 1)
        assert rival.state == "PENDING"
        record = world.record().status.jobs[0]
        assert record.crashed_by_itself
        assert record.attempt_before == 0


async def test_on_older_slurm_the_node_is_drained_and_the_job_requeued_to_the_top() -> None:
    world = World()
    world.slurm.version = "25.05.3"
    async with playing(world):
        job = await training(world, expedited=False)
        rival = world.submit(8)
        world.break_gpu("gpu-1")
        await healed(world)
        await until(lambda: reported_attempt(job) == 1)
        assert world.record().status.fence is FenceKind.REQUEUE
        assert job.priority > rival.priority
        assert ("DOWN",) not in [args[1] for method, args in world.slurm.calls if method == "set_node_state"]


async def test_slurm_away_is_waited_for_and_never_read_as_empty() -> None:
    world = World()
    async with playing(world):
        await training(world)
        world.slurm.fail(SlurmUnavailableError("slurmrestd: no answer"), times=100_000)
        world.break_gpu("gpu-1")
        await until(lambda: "Slurm" in waits_for(world))
        assert world.node("gpu-1")["spec"]["unschedulable"], "Kubernetes' part of the fence is done"
        await asyncio.sleep(100)
        assert deletions(world) == []
        assert len(world.receiver.of("incident.waiting")) == 1
        world.slurm._faults.clear()
        await healed(world)
        assert world.slurm.job_table[7].restart_count == 1


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
            open_claims = [r for r in records if r.status.outcome is Outcome.OPEN and r.status.replacement.claimed_at]
            holders.append(len(open_claims))
            return len(records) == 2 and all(r.status.outcome is Outcome.HEALED for r in records)

        await until(done, 240)
        assert max(holders) == 1
        assert all(ended(record.status, NodeStage.FENCED) for record in world.records())


async def test_over_the_breaker_a_node_is_drained_and_told_and_its_job_runs_on() -> None:
    world = World(replicas=3, spares=3)
    world.put_policy(RemediationPolicySpec(max_fenced_nodes=1, fenced_window_seconds=600))
    async with playing(world):
        jobs = [world.submit(index, size=1) for index in (1, 2, 3)]
        await until(lambda: all(reported_attempt(job) == 0 for job in jobs))
        await asyncio.sleep(12)
        world.break_gpu("gpu-1")
        await until(lambda: len(world.records()) == 1 and world.record().status.outcome is Outcome.HEALED)
        world.break_gpu("gpu-2")
        await until(lambda: len(world.records()) == 2)
        await asyncio.sleep(200)
        second = next(record for record in world.records() if record.spec.node == "gpu-2")
        assert second.status.fence is FenceKind.DRAIN
        policy = world.kube.peek(REMEDIATION_POLICY, "default", NAMESPACE)
        assert policy is not None
        assert policy["status"]["breakerOpen"] is True
        victim = next(job for job in jobs if job.job_id == second.status.jobs[0].job_id)
        assert victim.restart_count == 0, "it runs on"
        assert "breaker" in second.status.waiting_for
        world.slurm.end_job(victim.job_id)
        await until(lambda: all(record.status.outcome is Outcome.HEALED for record in world.records()))


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
        body = world.node("gpu-1")
        body["spec"]["unschedulable"] = False
        world.kube.put(NODE, body)
        await until(lambda: world.record().status.outcome is Outcome.CANCELLED)
        body = world.node("gpu-1")
        annotations = body["metadata"].get("annotations", {})
        assert ANNOTATION_REMEDIATION not in annotations
        assert SLINKY_NODE_CORDON_REASON not in annotations
        assert TAINT_FAULT not in [taint["key"] for taint in body["spec"]["taints"]]
        assert not any(node.down for node in world.slurm.node_table.values())
        await asyncio.sleep(60)
        assert len(world.records()) == 1, "the same open fault is not taken up again"
        # NVSentinel 1451: the end of the old incident must not end a new one.
        world.faults.clear()
        world.capacity.hosts["late"] = FakeHost("late")
        world.break_gpu("gpu-1", gpu=5)
        await until(lambda: any(record.status.outcome is Outcome.HEALED for record in world.records()))
        assert sorted(record.status.outcome for record in world.records()) == [Outcome.CANCELLED, Outcome.HEALED]


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
