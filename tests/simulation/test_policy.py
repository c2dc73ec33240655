"""Faults whose policy asks for less than the node, played whole: cordon only, the jobs alone, shown only, repeats."""

from __future__ import annotations

import asyncio

import pytest

from sparewheel.api.fault_policy import FaultPolicy, RepeatRule
from sparewheel.api.faults import Action, Sighting
from sparewheel.api.names import ANNOTATION_REPLACE_REQUEST, GPU_RESOURCE, TAINT_FAULT
from sparewheel.api.remediation import FenceKind, Outcome, Remediation
from sparewheel.api.remediation_policy import RemediationPolicySpec
from sparewheel.api.routes import WebhookRoute
from sparewheel.kube.memory_faults import Call
from sparewheel.kube.port import NODE, REMEDIATION, UnavailableError
from tests.support.job_reports import reported_attempt
from tests.support.play import deletions, playing, training, waits_for
from tests.support.world import World, until


def put_rules(world: World, *rules: FaultPolicy) -> None:
    route = WebhookRoute.model_validate({"name": "hook", "urlRef": {"name": "hook", "key": "url"}})
    world.put_policy(RemediationPolicySpec(routes=[route], fault_policies=list(rules)))


def outcomes(world: World) -> list[Outcome]:
    return [record.status.outcome for record in world.records()]


def record_of(world: World, code: str) -> Remediation:
    return next(record for record in world.records() if record.spec.fault.code == code)


def taints(world: World, node: str) -> list[str]:
    return [taint["key"] for taint in world.node(node)["spec"].get("taints", [])]


# -------------------------------------------------------------------- cordon only
async def test_cordon_only_leaves_the_job_alone_and_gives_the_node_back_when_it_is_well() -> None:
    world = World()
    put_rules(world, FaultPolicy(code="XID 79", action=Action.CORDON))
    async with playing(world):
        job = await training(world)
        world.break_gpu("gpu-1", gpu=0)
        world.break_gpu("gpu-1", gpu=3)
        await until(lambda: "a person or a recovery" in waits_for(world))
        await asyncio.sleep(60)
        assert world.node("gpu-1")["spec"]["unschedulable"] is True
        assert TAINT_FAULT in taints(world, "gpu-1")
        assert (job.restart_count, deletions(world), world.capacity.log) == (0, [], [])
        assert "kubectl uncordon gpu-1" in world.receiver.of("incident.detected")[0]["text"]
        world.heal_gpu("gpu-1", 0)
        await asyncio.sleep(30)
        assert outcomes(world) == [Outcome.OPEN], "GPU 3 still fails"
        world.heal_gpu("gpu-1", 3)
        await until(lambda: outcomes(world) == [Outcome.HEALED])
        assert not world.node("gpu-1")["spec"]["unschedulable"]
        assert TAINT_FAULT not in taints(world, "gpu-1")
        assert job.restart_count == 0
        assert "in service again" in world.receiver.of("incident.closed")[0]["text"]


async def test_a_node_that_offers_one_gpu_less_is_not_given_back() -> None:
    world = World()
    put_rules(world, FaultPolicy(code="XID 79", action=Action.CORDON))
    async with playing(world):
        await training(world)
        world.break_gpu("gpu-1", gpu=0)
        await until(lambda: "a person or a recovery" in waits_for(world))
        offer(world, "gpu-1", 7)
        world.heal_gpu("gpu-1", 0)
        await until(lambda: "the Node offers 7 of 8 GPUs" in waits_for(world))
        offer(world, "gpu-1", 8)
        await until(lambda: outcomes(world) == [Outcome.HEALED])


def offer(world: World, node: str, gpus: int) -> None:
    body = world.node(node)
    body["status"]["allocatable"] = {GPU_RESOURCE: str(gpus)}
    world.kube.put(NODE, body)


async def test_a_recovery_that_is_cut_between_the_uncordon_and_its_end_is_no_persons_call_off() -> None:
    world = World()
    put_rules(world, FaultPolicy(code="XID 79", action=Action.CORDON))

    def cut(call: Call) -> None:
        if call.resource == REMEDIATION and call.writes and not world.node("gpu-1")["spec"].get("unschedulable"):
            raise UnavailableError("no answer")

    async with playing(world):
        await training(world)
        world.break_gpu("gpu-1", gpu=0)
        await until(lambda: "a person or a recovery" in waits_for(world))
        world.kube.before = cut
        world.heal_gpu("gpu-1", 0)
        await until(lambda: not world.node("gpu-1")["spec"]["unschedulable"])
        await asyncio.sleep(30)
        assert outcomes(world) == [Outcome.OPEN]
        world.kube.before = None
        await until(lambda: outcomes(world) == [Outcome.HEALED])


async def test_a_person_takes_a_cordoned_node_back_and_it_is_not_cordoned_again_for_what_she_saw() -> None:
    world = World()
    put_rules(world, FaultPolicy(code="XID *", action=Action.CORDON))
    async with playing(world):
        await training(world)
        world.break_gpu("gpu-1", gpu=0)
        world.break_gpu("gpu-1", code="XID 48", gpu=3)
        await until(lambda: "a person or a recovery" in waits_for(world))
        await until(lambda: len(world.record().status.more_faults) == 1)
        world.uncordon("gpu-1")
        await until(lambda: outcomes(world) == [Outcome.CANCELLED])
        await asyncio.sleep(60)
        assert outcomes(world) == [Outcome.CANCELLED]
        assert not world.node("gpu-1")["spec"]["unschedulable"]


@pytest.mark.parametrize("by", ["a worse fault", "a person"])
async def test_more_is_done_about_a_cordoned_node_when_it_is_asked_for(by: str) -> None:
    world = World()
    put_rules(world, FaultPolicy(code="XID 48", action=Action.CORDON))
    async with playing(world):
        job = await training(world)
        world.break_gpu("gpu-1", code="XID 48", gpu=0)
        await until(lambda: "a person or a recovery" in waits_for(world))
        if by == "a person":
            body = world.node("gpu-1")
            body["metadata"]["annotations"][ANNOTATION_REPLACE_REQUEST] = "kim: enough"
            world.kube.put(NODE, body)
        else:
            world.break_gpu("gpu-1", gpu=3)
        await until(lambda: outcomes(world) == [Outcome.HEALED], 180)
        assert world.record().status.fence is FenceKind.DOWN
        assert world.capacity.hosts["gpu-1"].phase == "Quarantined"
        await until(lambda: reported_attempt(job) == 1)
        assert len(world.receiver.of("incident.worse")) == 1
        assert not any(node.down or node.drain for node in world.slurm.node_table.values())


# -------------------------------------------------------------------- the jobs alone
async def test_restart_job_requeues_the_job_that_was_hit_and_the_node_stays_in_service() -> None:
    """k8s-device-plugin 234: XID 94 is the job's alone."""
    world = World(replicas=2)
    async with playing(world):
        job = await training(world)
        fault = world.break_gpu("gpu-1", code="XID 94", action=Action.RESTART_JOB)
        await until(lambda: outcomes(world) == [Outcome.HEALED])
        await until(lambda: reported_attempt(job) == 1)
        assert not world.node("gpu-1")["spec"].get("unschedulable")
        assert (deletions(world), world.capacity.log) == ([], [])
        assert not any(node.down or node.drain for node in world.slurm.node_table.values())
        await until(lambda: world.record().status.jobs[0].resumed_at is not None)
        assert "XID 94" in job.comment
        await asyncio.sleep(60)
        assert (len(world.records()), job.restart_count) == (1, 1), "once for one sighting"
        fault.count = 2
        await until(lambda: outcomes(world) == [Outcome.HEALED, Outcome.HEALED])
        await until(lambda: reported_attempt(job) == 2)


async def test_only_the_job_that_was_hit_is_restarted_where_that_is_known() -> None:
    world = World(replicas=1)
    world.slurm.add_node("elsewhere")
    async with playing(world):
        jobs = [world.submit(index, size=1) for index in (1, 2)]
        await until(lambda: all(reported_attempt(job) == 0 for job in jobs))
        hit = next(job for job in jobs if "gpu-0" in job.nodes)
        recent = [Sighting(time=world.clock.now(), job_id=999)]
        world.break_gpu("gpu-1", code="XID 94", action=Action.RESTART_JOB, recent=recent)
        await until(lambda: outcomes(world) == [Outcome.HEALED])
        assert hit.restart_count == 0, "another job was hit, and has gone"
        assert "No job ran there" in world.record().status.message


async def test_a_worse_fault_while_jobs_restart_gets_its_own_incident_at_once() -> None:
    world = World()
    async with playing(world):
        job = await training(world, save_seconds=15.0)
        world.break_gpu("gpu-1", code="XID 94", gpu=0, action=Action.RESTART_JOB)
        await until(lambda: "to be requeued" in waits_for(world))
        world.break_gpu("gpu-1", gpu=3)
        await until(lambda: len(world.records()) == 2, 10)
        await until(lambda: record_of(world, "XID 79").status.outcome is Outcome.HEALED, 180)
        assert record_of(world, "XID 94").status.outcome is Outcome.HEALED
        await until(lambda: reported_attempt(job) >= 1)


# -------------------------------------------------------------------- shown only
async def test_detect_only_is_told_once_and_touches_nothing_until_the_policy_says_otherwise() -> None:
    world = World()
    put_rules(world, FaultPolicy(code="XID 79", detect_only=True))
    async with playing(world):
        job = await training(world)
        world.break_gpu("gpu-1")
        await until(lambda: outcomes(world) == [Outcome.DETECTED_ONLY])
        await asyncio.sleep(60)
        assert (len(world.records()), job.restart_count, deletions(world)) == (1, 0, [])
        assert [event["text"].split(": ")[0] for event in world.receiver.of("incident.closed")] == ["Detected only"]
        put_rules(world)
        await until(lambda: Outcome.HEALED in outcomes(world), 180)
        assert len(world.records()) == 2


# -------------------------------------------------------------------- repeats
async def test_the_same_fault_under_two_jobs_has_the_node_replaced() -> None:
    world = World()
    twice = RepeatRule(count=2, window_seconds=86_400, distinct_jobs=True, action=Action.REPLACE)
    put_rules(world, FaultPolicy(code="XID 31", repeats=[twice]))
    async with playing(world):
        await training(world)
        fault = world.break_gpu("gpu-1", code="XID 31", action=Action.RECORD)
        fault.recent = [Sighting(time=fault.first_seen, job_id=7)]
        await asyncio.sleep(30)
        assert world.records() == []
        fault.recent = [*fault.recent, Sighting(time=world.clock.now(), job_id=8)]
        fault.count = 2
        await until(lambda: outcomes(world) == [Outcome.HEALED], 180)
        assert "under different jobs" in world.record().spec.policy


# -------------------------------------------------------------------- repairing is no cure
async def test_a_fault_that_follows_each_repair_ends_with_one_call_for_a_person() -> None:
    """NVSentinel 1543: an endless loop of repairs."""
    world = World(replicas=1, spares=5)
    async with playing(world):
        for number in (1, 2, 3, 4):
            node = next(iter(world.worker_nodes().values()))
            world.break_gpu(node)
            await until(lambda count=number: len(world.records()) == count)
            if number < 4:
                await until(lambda: all(one is Outcome.HEALED for one in outcomes(world)), 180)
                await asyncio.sleep(10)
        await until(lambda: any("a person: XID 79" in record.status.waiting_for for record in world.records()))
        await asyncio.sleep(300)
        last = next(record for record in world.records() if record.status.outcome is Outcome.OPEN)
        assert world.node(last.spec.node)["spec"]["unschedulable"] is True
        assert last.status.replacement.claimed_at is None
        (told,) = world.receiver.of("incident.held")
        assert "each of 3 repairs" in told["text"]
        body = world.node(last.spec.node)
        body["metadata"]["annotations"][ANNOTATION_REPLACE_REQUEST] = "kim: replace it after all"
        world.kube.put(NODE, body)
        await until(lambda: all(one is Outcome.HEALED for one in outcomes(world)), 180)
