"""The ladder's decisions: which rung comes next, when one has ended, and the steps around it."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from sparewheel.api.enums import NodeActionKind, NodeActionState
from sparewheel.api.faults import Action
from sparewheel.api.gpu_pool import CrusoeAccess, CrusoeBackend, SecretKeyRef
from sparewheel.api.ladder import LadderRule, RebootBy, RungRecord, RungResult
from sparewheel.api.names import ANNOTATION_CANCEL
from sparewheel.api.node_action import from_annotation, to_annotation
from sparewheel.api.remediation import FenceKind, Remediation
from sparewheel.api.remediation_policy import RemediationPolicySpec
from sparewheel.remediation.decide import ladder, ladder_record
from sparewheel.remediation.decide.budget import FleetLimits
from sparewheel.remediation.decide.node_step import NodeAction as Step
from sparewheel.remediation.decide.observations import (
    HealthView,
    Observations,
    PodView,
    SlurmNodeView,
    Unknown,
)
from sparewheel.remediation.decide.rung_words import rule_words, rungs_ahead
from sparewheel.remediation.decide.spares import SpareAction, next_spare_step
from tests.support.incidents import NODE, at, fault, node, pool, remediation, worker
from tests.support.ladders import (
    CORDONED,
    FAULTY,
    PCI,
    REBOOT,
    RESET,
    RULE,
    RUNGS,
    actions,
    answer,
    asked,
    climbing,
    decide,
    ended_rung,
    health,
    reset_fault,
    rung,
)

ID = "00000000-0000-4000-8000-000000000000"
CRUSOE = CrusoeBackend(
    project_id=ID, node_pool_id=ID, access=CrusoeAccess(key_id="k", key_ref=SecretKeyRef(name="s", key="k"))
)


# -------------------------------------------------------------------- which rung comes next
@pytest.mark.parametrize(
    ("record", "kind"),
    [
        (climbing(), RESET),
        (climbing(first=reset_fault(action=Action.REBOOT)), REBOOT),
        (climbing(first=reset_fault(action=Action.REPLACE)), None),
        (climbing(more=(reset_fault("0000:18:00", Action.REPLACE),)), None),
        (climbing(more=(reset_fault("0000:18:00", Action.REBOOT),)), REBOOT),
        (climbing(first=reset_fault(device="")), REBOOT),
        (climbing(first=reset_fault(device="mlx5_0")), REBOOT),
        (climbing(ended_rung(RungResult.TIMED_OUT)), REBOOT),
        (climbing(ended_rung(RungResult.REFUSED)), REBOOT),
        (climbing(ended_rung(RungResult.FAILED)), REBOOT),
        (climbing(ended_rung(RungResult.SUCCEEDED)), REBOOT),
        (climbing(ended_rung(RungResult.SILENT)), None),
        (climbing(ended_rung(RungResult.NOT_ASKED)), None),
        (climbing(ended_rung(RungResult.TIMED_OUT, REBOOT)), None),
        (climbing(ended_rung(RungResult.SUCCEEDED, REBOOT)), None),
        (climbing(ended_rung(RungResult.SUCCEEDED), more=(reset_fault("0000:18:00"),)), RESET),
        (climbing(ended_rung(RungResult.TIMED_OUT), more=(reset_fault("0000:18:00"),)), REBOOT),
    ],
)
def test_the_next_rung(record: Remediation, kind: NodeActionKind | None) -> None:
    found = ladder.next_rung(record)
    assert (found.kind if found else None) is kind
    if found is not None and found.kind is RESET:
        assert found.device not in {one.device for one in record.status.ladder.rungs}


BOTH = [RebootBy.HELPER, RebootBy.BACKEND]


@pytest.mark.parametrize(
    ("rungs", "by", "next_by"),
    [
        ((), BOTH, RebootBy.HELPER),
        ((), [RebootBy.BACKEND], RebootBy.BACKEND),
        ((ended_rung(RungResult.SILENT, REBOOT),), BOTH, RebootBy.BACKEND),
        ((ended_rung(RungResult.NOT_ASKED, REBOOT),), BOTH, RebootBy.BACKEND),
        ((ended_rung(RungResult.SILENT),), BOTH, RebootBy.BACKEND),
        ((ended_rung(RungResult.REFUSED, REBOOT),), BOTH, None),
        ((ended_rung(RungResult.TIMED_OUT, REBOOT),), BOTH, RebootBy.BACKEND),
        ((ended_rung(RungResult.FAILED, REBOOT),), BOTH, RebootBy.BACKEND),
        ((ended_rung(RungResult.TIMED_OUT, REBOOT, rebooted=True),), BOTH, None),
        ((ended_rung(RungResult.TIMED_OUT, REBOOT),), [RebootBy.HELPER], None),
        ((ended_rung(RungResult.TIMED_OUT, REBOOT, by=RebootBy.BACKEND),), BOTH, None),
        ((ended_rung(RungResult.TIMED_OUT, REBOOT), ended_rung(RungResult.TIMED_OUT, REBOOT, by=BOTH[1])), BOTH, None),
        ((ended_rung(RungResult.WITHDRAWN, REBOOT),), BOTH, None),
        ((ended_rung(RungResult.SILENT, REBOOT), ended_rung(RungResult.NOT_ASKED, REBOOT, by=BOTH[1])), BOTH, None),
        ((ended_rung(RungResult.SILENT, REBOOT), ended_rung(RungResult.TIMED_OUT, REBOOT, by=BOTH[1])), BOTH, None),
    ],
)
def test_who_reboots_next(rungs: tuple[RungRecord, ...], by: list[RebootBy], next_by: RebootBy | None) -> None:
    record = climbing(*rungs, first=reset_fault(action=Action.REBOOT))
    record.spec.reboot_by = by
    found = ladder.next_rung(record)
    assert (found.by if found is not None else None) is next_by


def test_a_silent_helper_that_wakes_up_late_gets_no_power_cycle_on_top() -> None:
    silent = ended_rung(RungResult.SILENT, REBOOT)
    record = climbing(silent, first=reset_fault(action=Action.REBOOT))
    record.spec.reboot_by = BOTH
    still, anew = health(faults=FAULTY), health(faults=FAULTY, boot_id="boot-2")
    waits = decide(record, Observations(CORDONED, health=still), 45).waiting_for
    assert waits.startswith("a helper that may have read")
    late = health(answer(NodeActionState.RUNNING), faults=FAULTY)
    gone = health(faults=FAULTY, heard_seconds_ago=20.0)
    for seen in (anew, late, gone):
        assert "may be under way" in decide(record, Observations(CORDONED, health=seen), 90).waiting_for
    for seen in (anew, late):
        assert actions(record, Observations(CORDONED, health=seen), 611) == [Step.LADDER_OVER]
    assert actions(record, Observations(CORDONED, health=still), 61) == [Step.TAKE_RUNG]
    refused = health(answer(NodeActionState.REFUSED), faults=FAULTY)
    assert actions(record, Observations(CORDONED, health=refused), 90) == [Step.LADDER_OVER]


@pytest.mark.parametrize("by", [BOTH, [RebootBy.HELPER]])
def test_a_silent_helper_that_rebooted_the_host_into_health_has_helped(by: list[RebootBy]) -> None:
    record = climbing(ended_rung(RungResult.SILENT, REBOOT), first=reset_fault(action=Action.REBOOT))
    record.spec.reboot_by = by
    well = Observations(CORDONED, health=health(boot_id="boot-2"))
    (todo,) = decide(record, well, 90).todo
    assert todo.action is Step.MENDED
    assert todo.rung is not None
    assert todo.ended is not None
    record.status = ladder_record.helped_late(todo.rung.id, todo.ended, at(90))(record.status)
    (taken,) = record.status.ladder.rungs
    assert (taken.result, taken.ended_at) == (RungResult.SUCCEEDED, at(90))
    stale = Observations(CORDONED, health=health(boot_id="boot-2", heard_since_fence=False))
    record = climbing(ended_rung(RungResult.SILENT, REBOOT), first=reset_fault(action=Action.REBOOT))
    record.spec.reboot_by = by
    assert actions(record, stale, 90) == [], "not heard since it rebooted"


def test_a_host_that_hangs_in_its_reboot_needs_no_word_of_its_agent_for_the_power_cycle() -> None:
    record = climbing(ended_rung(RungResult.TIMED_OUT, REBOOT), first=reset_fault(action=Action.REBOOT))
    record.spec.reboot_by = BOTH
    gone, alive = health(heard_seconds_ago=500.0), health(jobs_alive=frozenset({7}))
    (todo,) = decide(record, Observations(CORDONED, health=gone), 40).todo
    assert todo.action is Step.TAKE_RUNG
    assert todo.rung is not None
    assert todo.rung.by is RebootBy.BACKEND
    assert "the job processes" in decide(record, Observations(CORDONED, health=alive), 40).waiting_for
    busy = SlurmNodeView("gpu-0", frozenset({"ALLOCATED"}))
    assert "the jobs of" in decide(record, Observations(CORDONED, slurm_node=busy, health=gone), 40).waiting_for


def test_who_can_reboot_follows_from_helpers_and_backend() -> None:
    policy, bare = RemediationPolicySpec(ladder=RULE), RemediationPolicySpec(ladder=RULE, node_helpers=False)
    spec, warm, crusoe = remediation().spec, pool().spec, pool(backend=CRUSOE).spec
    assert ladder.reboot_by(warm, policy) == [RebootBy.HELPER]
    assert ladder.reboot_by(crusoe, policy) == BOTH
    assert ladder.reboot_by(crusoe, bare) == [RebootBy.BACKEND]
    assert ladder.rungs_for(spec, crusoe, bare, [], at(0)) == ([RUNGS[1]], ""), "no helper resets a GPU"
    assert ladder.rungs_for(spec, warm, bare, [], at(0)) == ([], "")


def test_without_rungs_in_its_policy_an_incident_has_none() -> None:
    record = climbing()
    record.spec.ladder = []
    assert ladder.next_rung(record) is None
    record.spec.ladder = [RUNGS[1]]
    assert rungs_ahead(record) == "reboot (600 s)"
    assert rungs_ahead(climbing()) == f"reset of GPU {PCI} (60 s), then reboot (600 s)"
    assert rule_words(RUNGS) == "reset of the GPU (60 s), then reboot (600 s)"


def test_a_pools_own_ladder_wins_over_the_clusters() -> None:
    policy, spec = RemediationPolicySpec(ladder=RULE), remediation().spec
    assert ladder.rungs_for(spec, pool().spec, policy, [], at(0)) == (RUNGS, "")
    off = pool(ladder=LadderRule()).spec
    assert ladder.rungs_for(spec, off, policy, [], at(0)) == ([], "")


def mended_before(name: str, seconds: float, **fields: Any) -> Remediation:
    record = remediation(name, **fields)
    record.status.ladder.mended_at = at(seconds)
    return record


def test_what_was_mended_too_often_is_replaced() -> None:
    spec, policy = remediation().spec, RemediationPolicySpec(ladder=RULE)
    two = [mended_before("a", -100), mended_before("b", -50)]

    def off(history: list[Remediation]) -> str:
        rungs, why = ladder.rungs_for(spec, pool().spec, policy, history, at(0))
        assert bool(rungs) != bool(why)
        return why

    assert off(two) == "node gpu-7 was mended 2 times within 604800 s (a, b)"
    assert off(two[:1]) == ""
    assert off([two[0], mended_before("c", -700_000)]) == "", "long ago"
    assert off([two[0], mended_before("c", -5, node="gpu-8")]) == "", "another node"
    assert off([two[0], mended_before("c", -5, fault=fault(drill=True))]) == "", "a drill"
    assert off([two[0], remediation("c")]) == "", "replaced, not mended"


# -------------------------------------------------------------------- when a rung has ended
CASES: list[tuple[str, RungRecord, HealthView | None, float, RungResult | None]] = [
    ("well after a reset", rung(), health(answer(NodeActionState.SUCCEEDED)), 30, RungResult.SUCCEEDED),
    ("reset, not heard since", rung(),
     health(answer(NodeActionState.SUCCEEDED), heard_since_fence=False), 30, None),
    ("reset, GPU not counted", rung(), health(answer(NodeActionState.SUCCEEDED), gpus_seen=None), 30, None),
    ("reset, one GPU less", rung(), health(answer(NodeActionState.SUCCEEDED), gpus_seen=7), 30, None),
    ("reset, still faulty", rung(), health(answer(NodeActionState.SUCCEEDED), faults=FAULTY), 30, None),
    ("reset, still faulty at the end", rung(),
     health(answer(NodeActionState.SUCCEEDED), faults=FAULTY), 70, RungResult.TIMED_OUT),
    ("well, but by nobody's doing", rung(), health(), 30, None),
    ("somebody else's answer", rung(), health(answer(NodeActionState.SUCCEEDED, "other")), 30, None),
    ("refused", rung(), health(answer(NodeActionState.REFUSED)), 12, RungResult.REFUSED),
    ("failed", rung(), health(answer(NodeActionState.FAILED)), 12, RungResult.FAILED),
    ("failed, yet another boot is well", rung(),
     health(answer(NodeActionState.FAILED), boot_id="boot-2"), 30, RungResult.SUCCEEDED),
    ("under way", rung(), health(answer(NodeActionState.RUNNING)), 69, None),
    ("under way for too long", rung(), health(answer(NodeActionState.RUNNING)), 70, RungResult.TIMED_OUT),
    ("silent", rung(), health(), 55, RungResult.SILENT),
    ("not yet silent", rung(), health(), 54, None),
    ("no report at all", rung(), None, 55, RungResult.SILENT),
    ("a reboot that says it is done", rung(REBOOT), health(answer(NodeActionState.SUCCEEDED)), 100, None),
    ("a reboot that is proven", rung(REBOOT), health(boot_id="boot-2"), 100, RungResult.SUCCEEDED),
    ("a reboot, no boot id", rung(REBOOT), health(answer(NodeActionState.RUNNING), boot_id=""), 100, None),
    ("a reboot that never was", rung(REBOOT), health(answer(NodeActionState.RUNNING)), 610, RungResult.TIMED_OUT),
    ("a reboot that did not help", rung(REBOOT), health(boot_id="boot-2", faults=FAULTY), 610, RungResult.TIMED_OUT),
    ("a host that does not go down", rung(REBOOT), health(answer(NodeActionState.FAILED)), 250, RungResult.FAILED),
]  # fmt: skip


@pytest.mark.parametrize(("taken", "view", "seconds", "result"), [one[1:] for one in CASES], ids=[c[0] for c in CASES])
def test_how_a_rung_ends(taken: RungRecord, view: HealthView | None, seconds: float, result: RungResult | None) -> None:
    record = climbing(taken)
    step = decide(record, Observations(asked(taken), (worker(),), health=view), seconds)
    found = [todo.ended.result for todo in step.todo if todo.ended is not None]
    assert found == ([] if result is None else [result])
    done = [Step.MENDED] if result is RungResult.SUCCEEDED else [Step.END_RUNG] if result else []
    assert [todo.action for todo in step.todo] == done
    assert result is not None or step.waiting_for


@pytest.mark.parametrize(("ready", "well"), [(True, True), (False, False), (None, False)])
def test_a_node_that_is_not_ready_is_not_mended(ready: bool | None, well: bool) -> None:
    record = climbing(rung())
    seen = Observations(node(unschedulable=True, ready=ready), health=health(answer(NodeActionState.SUCCEEDED)))
    assert (actions(record, seen) == [Step.MENDED]) == well


@pytest.mark.parametrize(("offered", "well"), [(8, True), (7, False), (0, False), (None, False)])
def test_a_node_that_does_not_offer_all_its_gpus_again_is_not_mended(offered: int | None, well: bool) -> None:
    """A device plugin that gave up the GPU before its reset doesn't know that it is well again."""
    record = climbing(rung())
    seen = Observations(
        node(unschedulable=True, gpus_offered=offered), health=health(answer(NodeActionState.SUCCEEDED))
    )
    assert (actions(record, seen) == [Step.MENDED]) == well
    late = decide(record, seen, 71).todo[0].ended
    assert late is not None
    assert late.result is (RungResult.SUCCEEDED if well else RungResult.TIMED_OUT)


def test_after_a_reboot_the_workers_slurmd_has_registered_anew() -> None:
    record = climbing(rung(REBOOT))

    def well(slurm: Any, pods: Any = None) -> bool:
        seen = Observations(
            CORDONED, (worker(),) if pods is None else pods, slurm_node=slurm, health=health(boot_id="boot-2")
        )
        return actions(record, seen, 100) == [Step.MENDED]

    anew = SlurmNodeView("gpu-0", frozenset({"DOWN"}), slurmd_start_time=at(90))
    assert well(anew)
    assert not well(SlurmNodeView("gpu-0", frozenset({"DOWN"}), slurmd_start_time=at(-100))), "the slurmd from before"
    assert not well(SlurmNodeView("gpu-0", frozenset({"DOWN", "NOT_RESPONDING"}), slurmd_start_time=at(90)))
    assert not well(Unknown("no answer"))
    assert not well(anew, Unknown("503"))
    assert well(SlurmNodeView("gpu-0"), ()), "its worker had to leave, and comes back with the uncordon"


def test_one_gpu_of_two_is_done_as_soon_as_its_own_fault_is_gone() -> None:
    other = reset_fault("0000:18:00", code="XID 48")
    record = climbing(rung(), more=(other,))
    seen = Observations(asked(rung()), health=health(answer(NodeActionState.SUCCEEDED), faults=(other,)))
    (todo,) = decide(record, seen).todo
    assert (todo.action, todo.ended) == (Step.END_RUNG, ladder.Ended(RungResult.SUCCEEDED))
    both = health(answer(NodeActionState.SUCCEEDED), faults=(*FAULTY, other))
    assert actions(record, Observations(asked(rung()), health=both)) == [], "its own is still there"
    record.status = ladder_record.end_rung(rung().id, ladder.Ended(RungResult.SUCCEEDED), at(30))(record.status)
    (todo,) = decide(record, seen, 31).todo
    assert todo.action is Step.TAKE_RUNG
    assert todo.rung is not None
    assert (todo.rung.device, todo.rung.id) == ("0000:18:00", "gpu-7-xid-79-0.2")


# -------------------------------------------------------------------- the steps around a rung
def test_a_rung_is_journalled_then_asked_for_then_waited_for() -> None:
    record = climbing()
    seen = Observations(CORDONED, (worker(),), health=health(faults=FAULTY))
    (todo,) = decide(record, seen).todo
    assert todo.action is Step.TAKE_RUNG
    assert todo.rung is not None
    assert (todo.rung.device, todo.rung.boot_id, todo.rung.timeout_seconds) == (PCI, "boot", 60)
    record.status = ladder_record.take_rung(todo.rung)(record.status)
    assert actions(record, seen, 21) == [Step.ASK_HELPER]
    carried = Observations(asked(todo.rung), (worker(),), health=health(faults=FAULTY))
    step = decide(record, carried, 22)
    assert (step.todo, step.waiting_for) == ((), f"reset of GPU {PCI} by the node's helper, for up to 60 s")
    request = from_annotation(to_annotation(ladder.request_of(todo.rung)))
    assert request.deadline == todo.rung.asked_at + timedelta(seconds=30)


def test_before_a_rung_everybody_leaves() -> None:
    record = climbing()
    web = PodView("web", "team", "u1", NODE)
    busy = SlurmNodeView("gpu-0", frozenset({"DOWN", "COMPLETING"}))
    assert actions(record, Observations(CORDONED, (worker(), web), health=health())) == [Step.EVICT]
    assert actions(record, Observations(CORDONED, (worker(), web), health=health()), 303) == [Step.DELETE_POD]
    for seen in (
        Observations(CORDONED, (worker(),), health=health(jobs_alive=frozenset({7}))),
        Observations(CORDONED, (worker(),), health=health(jobs_alive=None)),
        Observations(CORDONED, (worker(),), health=health(heard_seconds_ago=20.0)),
        Observations(CORDONED, (worker(),), health=None),
        Observations(CORDONED, (worker(),), slurm_node=busy, health=health()),
        Observations(CORDONED, (worker(),), slurm_node=Unknown("no answer"), health=health()),
    ):
        step = decide(record, seen)
        assert step.todo == ()
        assert f"before the reset of GPU {PCI}" in step.waiting_for
        assert actions(record, seen, 1000) == [Step.LADDER_OVER], "not for ever"
        record.status.fence = FenceKind.DRAIN
        assert actions(record, seen, 1000) == [], "the breaker lets jobs run"
        record.status.fence = FenceKind.DOWN


def test_when_no_rung_is_left_it_is_replaced() -> None:
    record = climbing(
        ended_rung(RungResult.TIMED_OUT, message="XID 119 is still open"), ended_rung(RungResult.REFUSED, REBOOT)
    )
    (todo,) = decide(record, Observations(CORDONED, health=health())).todo
    assert todo.action is Step.LADDER_OVER
    record.status = ladder_record.ladder_over(todo.why, at(50))(record.status)
    assert record.status.ladder.why.startswith(
        f"reset of GPU {PCI} did not help: timed out after 30 s (XID 119 is still"
    )
    assert actions(record, Observations(CORDONED, health=health())) == [Step.BEGIN_DRAIN]


def test_no_spare_is_claimed_before_the_ladder_is_over() -> None:
    def step(record: Remediation) -> SpareAction:
        return next_spare_step(record, pool().spec, "", [], at(60), FleetLimits()).action

    record = climbing()
    assert step(record) is SpareAction.NONE
    record.status.stages.pop()
    assert step(record) is SpareAction.NONE, "not begun yet"
    assert step(climbing(rung())) is SpareAction.NONE
    record.status = ladder_record.ladder_over("nothing helped", at(50))(record.status)
    assert step(record) is SpareAction.CLAIM
    record = climbing(first=reset_fault(action=Action.REPLACE))
    record.status.stages.pop()
    assert step(record) is SpareAction.CLAIM


def test_once_well_it_is_given_back_whatever_comes() -> None:
    record = climbing(rung())
    record.status = ladder_record.mended("it helped", at(40))(record.status)
    for seen in (node(unschedulable=False), CORDONED):
        assert actions(record, Observations(seen, health=None)) == [Step.RECOVER]
    record.metadata.annotations[ANNOTATION_CANCEL] = "ada at noon: no"
    assert actions(record, Observations(CORDONED, health=None)) == [Step.RECOVER]


def test_called_off_the_request_is_taken_back_and_a_helper_that_has_begun_is_waited_for() -> None:
    record = climbing(rung(REBOOT))
    record.metadata.annotations[ANNOTATION_CANCEL] = "ada at noon: no"
    seen = Observations(asked(rung(REBOOT)), health=health())
    assert actions(record, seen) == [Step.WITHDRAW]
    record.status = ladder_record.withdraw_rung(rung().id, at(21))(record.status)
    assert actions(record, seen, 22) == [], "it may have been read just before"
    assert actions(record, seen, 41) == [Step.END_RUNG]
    down = Observations(CORDONED, health=health(answer(NodeActionState.RUNNING)))
    assert actions(record, down, 300) == []
    assert actions(record, down, 610) == [Step.END_RUNG]
    assert actions(record, Observations(CORDONED, health=health(boot_id="boot-2", faults=FAULTY)), 300) == [
        Step.END_RUNG
    ]
    record.status = ladder_record.end_rung(rung().id, ladder.Ended(RungResult.WITHDRAWN), at(41))(record.status)
    assert actions(record, down, 42) == [Step.CANCEL]
