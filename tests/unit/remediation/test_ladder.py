"""The ladder's decisions: which rung comes next, when one has ended, and the steps around it."""

from __future__ import annotations

from typing import Any

import pytest

from sparewheel.api.enums import NodeActionKind, NodeActionState
from sparewheel.api.faults import Action
from sparewheel.api.gpu_pool import CrusoeAccess, CrusoeBackend, SecretKeyRef
from sparewheel.api.ladder import LadderRule, RebootBy, RungRecord, RungResult
from sparewheel.api.remediation import Remediation
from sparewheel.api.remediation_policy import RemediationPolicySpec
from sparewheel.remediation.decide import ladder, ladder_record
from sparewheel.remediation.decide.node_step import NodeAction as Step
from sparewheel.remediation.decide.observations import (
    Observations,
    SlurmNodeView,
)
from sparewheel.remediation.decide.rung_words import rule_words, rungs_ahead
from tests.support.incidents import at, fault, pool, remediation
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
        (climbing(ended_rung(RungResult.LOST)), None),
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
        ((ended_rung(RungResult.LOST),), BOTH, RebootBy.BACKEND),
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


LOST_FOR: dict[str, Any] = {"heard_seconds_ago": 41.0, "kubelet_silent_seconds": 41.0, "faults": FAULTY}


@pytest.mark.parametrize("begun", [True, False])
def test_a_host_that_is_lost_in_its_reset_does_not_wait_for_the_rest_of_it(*, begun: bool) -> None:
    word = answer(NodeActionState.RUNNING) if begun else None
    record = climbing(rung(timeout_seconds=600))
    record.spec.reboot_by = BOTH

    def ends(**fields: Any) -> list[tuple[RungResult, str]]:
        seen = Observations(asked(rung(timeout_seconds=600)), health=health(word, **{**LOST_FOR, **fields}))
        return [(todo.ended.result, todo.ended.message) for todo in decide(record, seen, 51).todo if todo.ended]

    assert ends() == [(RungResult.LOST, "agent and kubelet silent for 41 s")]
    for alive in ({"kubelet_silent_seconds": 5.0}, {"kubelet_silent_seconds": None}, {"heard_seconds_ago": 39.0}):
        assert ends(**alive) == []
    record.status = ladder_record.end_rung(rung().id, ladder.Ended(RungResult.LOST), at(51))(record.status)
    gone = Observations(CORDONED, health=health(word, **LOST_FOR))
    (todo,) = decide(record, gone, 52).todo
    assert todo.action is Step.TAKE_RUNG
    assert todo.rung is not None
    assert todo.rung.by is RebootBy.BACKEND
    record.spec.reboot_by = [RebootBy.HELPER]
    assert actions(record, gone, 52) == [Step.LADDER_OVER], "nobody is there to reboot it: it is replaced"


def test_a_host_whose_helper_was_silent_before_it_was_lost_is_power_cycled_as_soon() -> None:
    record = climbing(ended_rung(RungResult.SILENT, timeout_seconds=600))
    record.spec.reboot_by = BOTH
    silent = health(None, **{**LOST_FOR, "kubelet_silent_seconds": 5.0})
    assert "may be under way" in decide(record, Observations(CORDONED, health=silent), 61).waiting_for
    (todo,) = decide(record, Observations(CORDONED, health=health(**LOST_FOR)), 61).todo
    assert todo.rung is not None
    assert todo.rung.by is RebootBy.BACKEND


def test_a_host_that_reboots_is_silent_by_nature() -> None:
    record = climbing(rung(REBOOT), first=reset_fault(action=Action.REBOOT))
    down = Observations(asked(rung(REBOOT)), health=health(answer(NodeActionState.RUNNING), **LOST_FOR))
    assert actions(record, down, 500) == []
    record = climbing(ended_rung(RungResult.SILENT, REBOOT), first=reset_fault(action=Action.REBOOT))
    record.spec.reboot_by = BOTH
    assert "may be under way" in decide(record, Observations(CORDONED, health=health(**LOST_FOR)), 500).waiting_for


def test_a_host_that_is_lost_before_its_helper_is_asked_is_asked_for_nothing() -> None:
    record = climbing(ended_rung(RungResult.REFUSED))
    record.spec.reboot_by = BOTH
    gone = Observations(CORDONED, health=health(**LOST_FOR))
    assert actions(record, gone, 45) == []
    assert actions(record, gone, 300) == [Step.LADDER_OVER]


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
