"""Cordon rules, scaling order, rolling updates, status and pace: pure decisions."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from typing import Any

import pytest

from lab.standins.slinky import pace
from lab.standins.slinky.nodeset import actions, cordon, scaling, status
from lab.standins.slinky.quantity import whole
from lab.standins.slinky.queue import Key, Queue
from lab.standins.slinky.slurm_rest import RunningJob, SlurmNode, expand, parse_job, parse_node
from tests.unit.standins import slinky_objects as given

Obj = dict[str, Any]
NOW = datetime(2026, 11, 29, 12, tzinfo=UTC)


def slurm(*states: str, reason: str = "", comment: str = "") -> SlurmNode:
    return SlurmNode("gpu-0", frozenset(states), reason, comment)


POD = given.pod(0, host="host-1")


def test_a_cordoned_host_drains_with_its_annotation_as_reason() -> None:
    step = cordon.cordon_step(POD, given.node("host-1", cordoned=True, reason="XID 79\non GPU 3"), slurm("IDLE"))
    assert step == cordon.Step("drain", "XID 79 on GPU 3", source="node")


def test_a_cordoned_host_without_annotation_has_a_default_reason() -> None:
    step = cordon.cordon_step(POD, given.node("host-1", cordoned=True), slurm("IDLE"))
    assert step is not None
    assert step.reason == "Node (host-1) was cordoned, Pod (slurm/gpu-0) must be cordoned"


@pytest.mark.parametrize("reason", ["bad HBM", "sparewheel: XID 79", "slurm-operator"])
@pytest.mark.parametrize("cordoned", [True, False])
def test_somebody_elses_reason_is_left_alone(reason: str, *, cordoned: bool) -> None:
    node = given.node("host-1", cordoned=cordoned)
    assert cordon.cordon_step(POD, node, slurm("IDLE", "DRAIN", reason=reason)) is None


def test_a_node_that_does_not_respond_is_left_alone() -> None:
    record = slurm("DOWN", reason="slurm-operator: x [Not responding]")
    assert cordon.cordon_step(POD, given.node("host-1", cordoned=True), record) is None


def test_an_unknown_node_or_record_decides_nothing() -> None:
    assert cordon.cordon_step(POD, None, slurm("IDLE")) is None
    assert cordon.cordon_step(POD, given.node("host-1", cordoned=True), None) is None


def test_uncordon_undrains_only_a_drain_of_ours() -> None:
    step = cordon.cordon_step(POD, given.node("host-1"), slurm("IDLE", "DRAIN", reason="slurm-operator: x"))
    assert step is not None
    assert step.do == "undrain"
    assert cordon.undrain_update(slurm("IDLE", "DRAIN", reason="slurm-operator: x"), "ok") == cordon.NodeUpdate(
        "UNDRAIN", "slurm-operator: ok"
    )
    assert cordon.undrain_update(slurm("DOWN", reason="slurm-operator: Pod is terminating"), "ok") is None


def test_a_pod_cordoned_by_hand_stays_drained_on_a_healthy_host() -> None:
    pod = given.pod(0, host="host-1", annotations={"nodeset.slinky.slurm.net/pod-cordon": "true"})
    step = cordon.cordon_step(pod, given.node("host-1"), slurm("IDLE"))
    assert step is not None
    assert step.do == "drain"


def test_a_reason_that_is_there_is_kept_unless_overridden() -> None:
    drained = slurm("IDLE", "DRAIN", reason="slurm-operator: first")
    assert cordon.drain_update(drained, "second", override=False) is None
    assert cordon.drain_update(drained, "second", override=True) == ("DRAIN", "slurm-operator: second")
    assert cordon.drain_update(slurm("IDLE"), "first", override=False) == ("DRAIN", "slurm-operator: first")


@pytest.mark.parametrize(
    ("record", "drained"),
    [
        (slurm("IDLE", "DRAIN"), True),
        (slurm("ALLOCATED", "DRAIN"), False),
        (slurm("MIXED", "DRAIN"), False),
        (slurm("IDLE", "DRAIN", "COMPLETING"), False),
        (slurm("IDLE", "DRAIN", "UNDRAIN"), False),
        (slurm("IDLE"), False),
        (None, True),
    ],
)
def test_drained(record: SlurmNode | None, *, drained: bool) -> None:
    assert cordon.is_drained(record) is drained


def test_reason_is_cut_at_256_characters_and_cleaned() -> None:
    assert cordon.clean_reason(" a\tb\x00c\r\n") == "a bc"
    assert len(cordon.clean_reason("x" * 400)) == 256


def test_missing_ordinals_are_filled_lowest_first() -> None:
    assert scaling.plan(4, [given.pod(1), given.pod(3)]).create == [0, 2]


def test_a_pod_stuck_in_deletion_still_counts() -> None:
    assert scaling.plan(2, [given.pod(0), given.pod(1, deleting=True)]) == ([], [])


def test_scale_in_order() -> None:
    cost, deadline = "nodeset.slinky.slurm.net/pod-deletion-cost", "nodeset.slinky.slurm.net/pod-deadline"
    held = [
        given.pod(0, host="a"),
        given.pod(1, host="b", annotations={"nodeset.slinky.slurm.net/pod-cordon": "true"}),
        given.pod(2, host="c", annotations={deadline: "2026-11-29T13:00:00Z"}),
        given.pod(3, host="d", annotations={cost: "-1"}),
        given.pod(4, host="e", ready=False),
        given.pod(5, host="f", phase="Pending", ready=False),
        given.pod(6, phase="Pending", ready=False),
        given.pod(7, host="g"),
        given.pod(8, host="h", annotations={cost: "5"}),
    ]
    order = [one["metadata"]["name"][4:] for one in scaling.first_to_go(held)]
    assert order == ["6", "5", "4", "3", "1", "7", "0", "2", "8"]
    assert [one["metadata"]["name"] for one in scaling.plan(7, held).condemn] == ["gpu-6", "gpu-5"]


def test_rollout_keeps_max_unavailable() -> None:
    old = [given.pod(number, host=f"h{number}", revision="old") for number in range(4)]
    plan = scaling.rollout(old, "new", 4, "25%", 0, NOW)
    assert [one["metadata"]["name"] for one in plan.condemn] == ["gpu-3"]
    # A new pod that never becomes ready (a bad image) uses the budget up: nothing more is taken.
    stuck = [*old[:3], given.pod(3, host="h3", ready=False)]
    assert scaling.rollout(stuck, "new", 4, "25%", 0, NOW).condemn == []
    # A pod being deleted is away, too.
    leaving = [*old[:3], given.pod(3, revision="old", deleting=True)]
    assert scaling.rollout(leaving, "new", 4, 1, 0, NOW).condemn == []


def test_rollout_replaces_unhealthy_old_pods_at_once() -> None:
    held = [given.pod(0, host="a", revision="old", ready=False), given.pod(1, host="b", revision="old")]
    plan = scaling.rollout(held, "new", 2, 1, 0, NOW)
    assert [one["metadata"]["name"] for one in plan.condemn] == ["gpu-0", "gpu-1"]
    assert scaling.scaled("25%", 2) == 1


def test_pod_conditions_show_base_state_flags_and_reason() -> None:
    record = slurm("ALLOCATED", "DRAIN", "COMPLETING", reason="slurm-operator: x")
    assert status.slurm_conditions(record) == {
        "SlurmNodeStateAllocated": "slurm-operator: x",
        "SlurmNodeStateCompleting": "slurm-operator: x",
        "SlurmNodeStateDrain": "slurm-operator: x",
    }


def test_condition_patch_removes_what_no_longer_holds() -> None:
    pod = given.pod(0, host="a")
    pod["status"]["conditions"].append({"type": "SlurmNodeStateIdle", "status": "True"})
    patch = status.condition_patch(pod, slurm("DOWN", reason="r"), NOW)
    assert patch is not None
    assert patch["status"]["conditions"] == [
        {"type": "SlurmNodeStateIdle", "$patch": "delete"},
        {
            "type": "SlurmNodeStateDown",
            "status": "True",
            "message": "r",
            "lastTransitionTime": "2026-11-29T12:00:00Z",
        },
    ]
    assert status.condition_patch(pod, slurm("IDLE"), NOW) is None


def test_comment_names_the_pod_and_a_move_is_noticed_once() -> None:
    nodeset = given.nodeset()
    first = status.comment_update(nodeset, given.pod(0, host="host-1"), slurm("IDLE"))
    assert first is not None
    assert not first.moved
    assert json.loads(first.comment) == {
        "namespace": "slurm",
        "podName": "gpu-0",
        "node": "host-1",
        "nodeSetName": "gpu",
        "nodeSetUID": "uid-gpu",
    }
    same = slurm("IDLE", comment=first.comment)
    assert status.comment_update(nodeset, given.pod(0, host="host-1"), same) is None
    moved = status.comment_update(nodeset, given.pod(0, host="host-2"), same)
    assert moved is not None
    assert moved.moved
    assert status.comment_update(nodeset, given.pod(0, host="host-2"), slurm("DOWN", comment=moved.comment)) is None


def test_nodeset_status_counts() -> None:
    held = [given.pod(0, host="a"), given.pod(1, host="b", ready=False)]
    records = {"gpu-0": slurm("MIXED", "DRAIN"), "gpu-1": slurm("DOWN")}
    found = status.nodeset_status(given.nodeset(), held, records, "new", NOW)
    assert (found["replicas"], found["readyReplicas"], found["unavailableReplicas"]) == (2, 1, 1)
    assert (found["slurmAllocated"], found["slurmDown"], found["slurmDrain"], found["slurmIdle"]) == (1, 1, 1, 0)
    assert found["ordinalToNode"] == {"0": "a", "1": "b"}
    assert found["selector"] == "app.kubernetes.io/instance=gpu,app.kubernetes.io/name=slurmd"


def test_deadline_is_the_latest_of_the_nodes_jobs() -> None:
    jobs = [RunningJob(("gpu-0",), NOW), RunningJob(("gpu-0", "gpu-1"), NOW.replace(hour=14))]
    assert actions.deadline_note("gpu-0", jobs) == "2026-11-29T14:00:00Z"
    assert actions.deadline_note("gpu-9", jobs) is None


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("gpu-0", ["gpu-0"]),
        ("gpu-[0-2,7],login-1", ["gpu-0", "gpu-1", "gpu-2", "gpu-7", "login-1"]),
        ("n[08-10]x[1,2]", ["n08x1", "n08x2", "n09x1", "n09x2", "n10x1", "n10x2"]),
        ("", []),
    ],
)
def test_host_lists(text: str, names: list[str]) -> None:
    assert list(expand(text)) == names


def test_records_of_slurmrestd() -> None:
    assert parse_node({"name": "gpu-0", "state": ["IDLE"], "reason": None}) == slurm("IDLE")
    running = {
        "job_state": ["RUNNING"],
        "nodes": "gpu-[0-1]",
        "start_time": {"set": True, "number": 0},
        "time_limit": {"set": True, "infinite": False, "number": 60},
    }
    assert parse_job(running) == RunningJob(("gpu-0", "gpu-1"), datetime(1970, 1, 1, 1, tzinfo=UTC))
    assert parse_job({"job_state": ["PENDING"]}) is None


@pytest.mark.parametrize(
    ("text", "number"), [("500m", 1), (2, 2), ("1Gi", 2**30), ("2k", 2000), (None, 0), ("1e3", 1000)]
)
def test_quantities(text: str | int | None, number: int) -> None:
    assert whole(text) == number


def test_a_condemned_pod_is_asked_again_at_once_and_then_every_thirty_seconds() -> None:
    rechecks = actions.Rechecks()
    assert rechecks.is_due("uid", 100.0)
    rechecks.asked("uid", 100.0)
    assert rechecks.is_due("uid", 100.0)
    rechecks.asked("uid", 100.0)
    assert not rechecks.is_due("uid", 100.0 + pace.DRAIN_RECHECK_SECONDS - 1)
    assert rechecks.is_due("uid", 100.0 + pace.DRAIN_RECHECK_SECONDS)
    rechecks.forget_all_but(set())
    assert rechecks.is_due("uid", 100.0)


class HandClock:
    """A clock that runs as fast as its sleepers ask; times of looks are exact."""

    def __init__(self) -> None:
        self.seconds = 0.0

    def now(self) -> datetime:
        return NOW

    def monotonic_seconds(self) -> float:
        return self.seconds

    async def sleep(self, seconds: float) -> None:
        self.seconds += seconds


async def looks(answers: list[float | Exception]) -> list[float]:
    """Times of the looks at one object whose reconciler answers so."""
    import asyncio

    clock, times, done = HandClock(), list[float](), asyncio.Event()

    async def look(_key: Key) -> float | None:
        times.append(clock.seconds)
        if len(times) > len(answers):
            done.set()
            return None
        answer = answers[len(times) - 1]
        if isinstance(answer, Exception):
            raise answer
        return answer

    queue = Queue(look, clock)
    queue.add(Key("NodeSet", "slurm", "gpu"))
    running = asyncio.create_task(queue.run())
    await asyncio.wait_for(done.wait(), 30)
    running.cancel()
    return times


async def test_a_nodeset_is_looked_at_every_ten_seconds() -> None:
    assert await looks([pace.STATUS_RESYNC_SECONDS] * 2) == [0.0, 10.0, 20.0]


async def test_failures_are_repeated_later_and_later() -> None:
    assert await looks([ValueError("x"), ValueError("x"), ValueError("x")]) == [0.0, 0.5, 1.5, 3.5]
