"""Incidents as they go wrong: veto, no spare, lost host, early crash, Slurm away; in memory."""

from __future__ import annotations

import asyncio

import pytest

from sparewheel.api.names import NAMESPACE
from sparewheel.api.remediation import FenceKind, NodeStage
from sparewheel.api.remediation_policy import RemediationPolicySpec
from sparewheel.api.routes import WebhookRoute
from sparewheel.kube.port import EVENT, POD, InvalidError, UnavailableError
from sparewheel.remediation.decide.record import stage_record
from sparewheel.slurm.port import SlurmUnavailableError
from tests.support.fake_replacer import FakeHost
from tests.support.job_reports import reported_attempt
from tests.support.play import deletions, healed, playing, training, waits_for
from tests.support.world import World, until


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


async def test_events_tell_the_whole_way_and_a_refused_one_holds_nothing_up() -> None:
    world = World()
    world.kube.fail(InvalidError("403 forbidden"), "create", EVENT, times=1)
    async with playing(world):
        await training(world)
        world.break_gpu("gpu-1")
        await healed(world)
        await until(lambda: all(job.closed for job in world.record().status.jobs))
        await asyncio.sleep(3)
        listed = (await world.kube.list(EVENT, NAMESPACE)).items
        assert {body["reason"] for body in listed} == {
            "FaultDetected",
            "NodeFenced",
            "NodeReplaced",
            "RemediationClosed",
            "JobRequeued",
            "JobResumed",
        }
        uid = world.record().spec.node_uid
        about_node = (await world.kube.list(EVENT, "default")).items
        assert {body["regarding"]["uid"] for body in about_node} == {uid}


async def test_a_route_that_never_answers_holds_up_no_other() -> None:
    world = World()
    world.receiver.hung = {"aaa-dead"}
    references = [{"name": name, "urlRef": {"name": name, "key": "url"}} for name in ("aaa-dead", "hook")]
    world.put_policy(RemediationPolicySpec(routes=[WebhookRoute.model_validate(reference) for reference in references]))
    async with playing(world):
        await training(world)
        fault = world.break_gpu("gpu-1")
        await until(lambda: bool(world.receiver.of("incident.detected")), 10)
        await healed(world)
        await until(lambda: bool(world.receiver.of("incident.closed")), 1)
        assert world.receiver.of("incident.closed")[0]["fault"]["code"] == fault.code
        assert {key.rpartition("/")[2] for key in world.receiver.events} == {"hook"}


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


async def test_a_spare_that_fell_ill_before_its_join_gives_way_to_another() -> None:
    world = World(spares=2)
    world.capacity.hosts["gpu-3"].unfit = "it reports XID 48 on 0000:17:00"
    async with playing(world):
        await training(world)
        world.break_gpu("gpu-1")
        await healed(world)
        replacement = world.record().status.replacement
        assert (replacement.spare_host, replacement.refused_hosts) == ("gpu-4", ["gpu-3"])
        assert replacement.choice == "same type"
        assert ("join", "gpu-3") not in world.capacity.log
        assert world.capacity.hosts["gpu-3"].phase == "Quarantined"


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
