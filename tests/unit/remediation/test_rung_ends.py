"""A rung of the ladder: how it ends, and what shows that the node is well."""

from __future__ import annotations

from typing import Any

import pytest

from sparewheel.api.enums import NodeActionState
from sparewheel.api.ladder import RungRecord, RungResult
from sparewheel.remediation.decide import ladder, ladder_record
from sparewheel.remediation.decide.node_step import NodeAction as Step
from sparewheel.remediation.decide.observations import (
    HealthView,
    Observations,
    SlurmNodeView,
    Unknown,
)
from tests.support.incidents import at, node, worker
from tests.support.ladders import (
    CORDONED,
    FAULTY,
    REBOOT,
    actions,
    answer,
    asked,
    climbing,
    decide,
    health,
    reset_fault,
    rung,
)

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
