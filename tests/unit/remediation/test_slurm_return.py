"""Slurm's state and its owners: when the struck Slurm node is brought back, and when it stays."""

from __future__ import annotations

from typing import Any

import pytest

from sparewheel.remediation.decide.observations import (
    Gone,
    SlurmNodeView,
    Unknown,
)
from sparewheel.remediation.decide.slurm_return import foreign, may_restore, reason_is_ours
from tests.support.incidents import at, fenced, worker

NEW_POD = (worker(uid="new", node_name="gpu-9"),)
OURS = "slurm-operator: Pod is terminating"


def slurm(**fields: Any) -> SlurmNodeView:
    values: dict[str, Any] = {
        "name": "gpu-0",
        "states": frozenset({"DOWN", "DRAIN"}),
        "reason": OURS,
        "slurmd_start_time": at(20),
        **fields,
    }
    return SlurmNodeView(**values)


def test_the_new_instance_brings_the_slurm_node_back() -> None:
    """slurm-operator 249: DOWN with a leftover reason "Pod is terminating" on the replacement."""
    assert may_restore(fenced(), slurm(), NEW_POD)


@pytest.mark.parametrize(
    ("node_view", "pods_seen"),
    [
        (slurm(slurmd_start_time=at(-100)), NEW_POD),
        (slurm(slurmd_start_time=None), NEW_POD),
        (slurm(states=frozenset({"DOWN", "NOT_RESPONDING"})), NEW_POD),
        (slurm(states=frozenset({"DOWN", "INVALID_REG"})), NEW_POD),
        (slurm(reason="bad HBM, ask Kim"), NEW_POD),
        (slurm(reason="sparewheel: XID 79 (another-incident)"), NEW_POD),
        (slurm(), ()),
        (slurm(), Unknown("503")),
        (slurm(), (worker(node_name="gpu-9"),)),
        (Unknown("no answer"), NEW_POD),
        (Gone(), NEW_POD),
    ],
)
def test_otherwise_it_stays_as_it_is(node_view: Any, pods_seen: Any) -> None:
    """soperator 2807 (undrained too early), slurm-operator 3 (an admin's drain), soperator 1904 (another's reason)."""
    assert not may_restore(fenced(), node_view, pods_seen)


def test_whose_reason_it_is() -> None:
    name = "gpu-7-xid-79-0"
    back = "slurm-operator: Pod (slurm/gpu-0) was uncordoned"
    for ours in ("", OURS, back, f"sparewheel: XID 79 ({name})", f"slurm-operator: {name}: XID 79", "Not responding"):
        assert reason_is_ours(ours, name)
    for theirs in (
        "bad HBM",
        "sparewheelx: other tool",
        "sparewheel: other (gpu-1-manual-1)",
        "slurm-operator: cordoned",
        "sparewheel: XID 79 (my-gpu-7-xid-79-0)",
        "sparewheel: XID 79 (gpu-7-xid-79-01)",
        "slurm-operator: gpu-7-xid-79-0.b: XID 79",
        "[node_problem_x] gpu-7-xid-79-0",
    ):
        assert not reason_is_ours(theirs, name)
    assert foreign(slurm(reason="bad HBM")) == "bad HBM"
    assert foreign(slurm(states=frozenset({"IDLE"}), reason="bad HBM")) == "", "in service: the reason is an old one"
    assert foreign(slurm(reason="slurm-operator: cordoned")) == ""
    assert foreign(slurm(reason="Epilog error")) == "", "a check of ours that saw the fault first"
    assert reason_is_ours("Epilog error", name)
    assert reason_is_ours("Prolog error", name)
