"""A Slurm node left DOWN by a rolling update comes back; one that anybody means to be down does not."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sparewheel.api.fault_policy import FaultPolicy
from sparewheel.api.faults import Action
from sparewheel.api.gpu_pool import GpuPoolSpec
from sparewheel.api.names import LABEL_ROLE, ROLE_SPARE, TAINT_FAULT
from sparewheel.api.remediation import Outcome, Remediation
from sparewheel.api.remediation_policy import RemediationPolicySpec
from sparewheel.remediation.decide.left_down import Place, candidate, nobodys, why_left_down
from sparewheel.remediation.decide.observations import HealthView, SlurmNodeView
from sparewheel.remediation.decide.record import close
from tests.support.incidents import at, fault, fenced, node, pool, worker

WELL = HealthView(gpus_expected=8, gpus_seen=8)
REPLACE_IT = FaultPolicy(code="XID 79", action=Action.REPLACE)
TERMINATED = "slurm-operator: Pod is terminating"


def spec(**fields: Any) -> GpuPoolSpec:
    return pool(**fields).spec


def slurm(*states: str, **fields: Any) -> SlurmNodeView:
    values: dict[str, Any] = {
        "reason": TERMINATED,
        "slurmd_start_time": at(20),
        "reason_changed_at": at(10),
        **fields,
    }
    return SlurmNodeView("gpu-0", frozenset(states or {"DOWN", "DYNAMIC_NORM"}), **values)


def place(**fields: Any) -> Place:
    values: dict[str, Any] = {"pods": [worker()], "node": node(), "health": WELL, "pool": spec(), **fields}
    return Place(**values)


def why(view: SlurmNodeView, where: Place, *incidents: Remediation) -> str:
    return why_left_down(view, where, RemediationPolicySpec(), incidents)


def test_a_worker_made_again_on_its_host_serves_again() -> None:
    assert why(slurm(), place()) == ""
    assert why_left_down(slurm(), place(), RemediationPolicySpec(dry_run=True), [])


def test_a_fault_that_its_policy_leaves_alone_leaves_the_node_in_service() -> None:
    rule = FaultPolicy(code="XID 79", action=Action.RECORD)
    assert why(slurm(), place(health=replace(WELL, faults=(fault(),)), pool=spec(fault_policies=[rule]))) == ""


def test_a_drain_that_slinky_took_back_later_dates_no_down() -> None:
    """Its Node was cordoned, lost its pods, came back and was uncordoned: the word is newer than the new slurmd."""
    view = slurm(reason="slurm-operator: Pod (slurm/gpu-0) was uncordoned", reason_changed_at=at(30))
    assert why(view, place(pods=[worker(ready=True)])) == ""
    assert "does not answer" in why(view, place(pods=[worker(ready=False)])), "it would get jobs that nobody runs"
    assert why(slurm(reason_changed_at=at(30)), place(pods=[worker(ready=True)])), "its worker was ended after that"


@pytest.mark.parametrize(
    "view",
    [
        slurm("DOWN", "DRAIN"),
        slurm("DOWN", "FAIL"),
        slurm("DOWN", "MAINTENANCE"),
        slurm("DOWN", "NOT_RESPONDING"),
        slurm("DOWN", "INVALID_REG"),
        slurm("IDLE"),
        slurm(reason="bad HBM, ask Kim"),
        slurm(reason="slurm-operator: cordoned"),
        slurm(reason="sparewheel: XID 79 on GPU 3 (gpu-7-xid-79-0)"),
        slurm(reason="Kill task failed"),
        slurm(reason=""),
        slurm(slurmd_start_time=at(10)),
        slurm(slurmd_start_time=None),
        slurm(reason_changed_at=None),
    ],
)
def test_a_node_that_is_down_for_somebodys_reason_or_has_no_newer_slurmd_is_left_alone(view: SlurmNodeView) -> None:
    assert not candidate(view)
    assert why(view, place())


@pytest.mark.parametrize(
    "where",
    [
        place(pods=[]),
        place(pods=[worker(), worker(uid="other")]),
        place(pods=[worker(deletion_due=at(1))]),
        place(node=None),
        place(node=node(unschedulable=True)),
        place(node=node(ready=None)),
        place(node=node(labels={LABEL_ROLE: ROLE_SPARE})),
        place(node=node(taints=frozenset({TAINT_FAULT}))),
        place(health=None),
        place(health=replace(WELL, gpus_seen=7)),
        place(health=replace(WELL, gpus_seen=None)),
        place(health=replace(WELL, heard_seconds_ago=16.0)),
        place(health=replace(WELL, faults=(fault(),))),
        place(health=replace(WELL, faults=(fault(action=Action.RECORD),)), pool=spec(fault_policies=[REPLACE_IT])),
        place(pool=None),
        place(pool=spec(paused=True)),
        place(pool=spec(dry_run=True)),
    ],
)
def test_any_doubt_about_pod_node_or_devices_leaves_it_down(where: Place) -> None:
    assert why(slurm(), where)


def test_an_open_incident_sees_to_its_own_node() -> None:
    record = fenced()
    assert "is open" in why(slurm(), place(), record)
    record.status = close(Outcome.HEALED, at(9), "")(record.status)
    assert why(slurm(), place(), record) == ""


def test_a_node_that_was_out_before_an_incident_stays_out_after_it() -> None:
    """preStop has written over the words of the person who took it out."""
    record = fenced()
    record.status.owned.foreign_reason = "bad HBM"
    record.status = close(Outcome.HEALED, at(12), "")(record.status)
    assert "bad HBM" in why(slurm(), place(), record)
    assert why(slurm(reason_changed_at=at(13)), place(), record) == ""


@given(st.text(max_size=60))
def test_a_persons_words_are_never_nobodys(text: str) -> None:
    if nobodys(text):
        assert text.strip().lower().startswith(("slurm-operator:", "not responding", "node unexpectedly rebooted"))


CHANGES: list[Callable[[Place], Place]] = [
    lambda where: replace(where, node=None),
    lambda where: replace(where, health=None),
    lambda where: replace(where, pods=()),
]


@given(st.lists(st.sampled_from(CHANGES), min_size=1))
def test_what_is_not_known_is_never_read_as_well(changes: list[Callable[[Place], Place]]) -> None:
    where = place()
    for change in changes:
        where = change(where)
    assert why(slurm(), where)
