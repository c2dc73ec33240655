"""Faults from other programs' Node conditions: by rules, dated, and never a second fault of one event."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from sparewheel.api.enums import Action, FaultSource, Severity
from sparewheel.api.node_conditions import NodeConditionRule
from sparewheel.remediation.controller.watches import slim_node
from sparewheel.remediation.decide.conditions import SAME_EVENT, condition_faults
from sparewheel.remediation.decide.observations import ConditionView
from sparewheel.remediation.stages.views import node_view
from tests.support.incidents import at, fault

RULE = NodeConditionRule(type="XidCriticalError", action=Action.REPLACE)


def seen(kind: str = "XidCriticalError", status: str = "True", minute: float = 10, **words: str) -> ConditionView:
    return ConditionView(kind, status, at(minute * 60), **words)


def test_a_condition_that_a_rule_names_is_a_fault_of_its_own_time() -> None:
    (found,) = condition_faults([seen(reason="XID79", message="GPU 3")], [RULE])
    assert (found.code, found.action, found.severity) == (
        "CONDITION XidCriticalError",
        Action.REPLACE,
        Severity.CRITICAL,
    )
    assert found.source is FaultSource.NODE_CONDITION
    assert found.first_seen == at(600)
    assert found.message == "Node condition XidCriticalError is True (XID79): GPU 3"


@pytest.mark.parametrize(
    "condition", [seen("KernelDeadlock"), seen(status="False"), seen(status="Unknown"), seen("xidcriticalerror")]
)
def test_no_rule_no_fault(condition: ConditionView) -> None:
    assert condition_faults([condition], [RULE]) == ()


def test_the_first_rule_that_fits_counts() -> None:
    rules = [
        NodeConditionRule(type="GpuXid", reason="Xid31", action=Action.RECORD),
        NodeConditionRule(type="GpuXid", code="XID 79", action=Action.REBOOT),
        NodeConditionRule(type="AcceleratedHardwareReady", status="False", action=Action.REPLACE),
    ]
    found = condition_faults(
        [seen("GpuXid", reason="Xid31"), seen("GpuXid"), seen("AcceleratedHardwareReady", "False")], rules
    )
    assert [(one.code, one.action) for one in found] == [
        ("CONDITION GpuXid", Action.RECORD),
        ("XID 79", Action.REBOOT),
        ("CONDITION AcceleratedHardwareReady", Action.REPLACE),
    ]


def test_the_agents_fault_of_the_same_time_is_the_same_event() -> None:
    """NPD looks every half minute; the agent has told it within a second."""
    agents = [fault(first_seen=at(590), last_seen=at(591))]
    assert condition_faults([seen()], [RULE], agents) == ()


def test_what_the_agent_only_records_is_another_event_unless_it_has_the_same_code() -> None:
    agents = [fault("XID 31", action=Action.RECORD, first_seen=at(590), last_seen=at(590))]
    assert len(condition_faults([seen()], [RULE], agents)) == 1
    same = NodeConditionRule(type="XidCriticalError", code="XID 31", action=Action.RECORD)
    assert condition_faults([seen()], [same], agents) == ()


def test_a_condition_that_opened_an_incident_stays_its_fault() -> None:
    """Else the kernel's line, a moment later, would take the reason from the incident that is being worked on."""
    agents = [fault(first_seen=at(601), last_seen=at(601))]
    known = [("CONDITION XidCriticalError", "")]
    assert len(condition_faults([seen()], [RULE], agents, known)) == 1


@given(st.integers(-2000, 2000), st.integers(0, 500))
def test_the_window(first_after_seconds: int, lasts_seconds: int) -> None:
    first = at(600) + timedelta(seconds=first_after_seconds)
    last = first + timedelta(seconds=lasts_seconds)
    found = condition_faults([seen()], [RULE], [fault(first_seen=first, last_seen=last)])
    apart = not (first - SAME_EVENT <= at(600) <= last + SAME_EVENT)
    assert bool(found) == apart


@pytest.mark.parametrize("kind", ['"XidCriticalError"', "'X'", "X ", "", "a b", "-x"])
def test_a_type_that_no_condition_can_have_is_refused(kind: str) -> None:
    """soperator 1973: passed on with its quotes, it never matched anything."""
    with pytest.raises(ValidationError):
        NodeConditionRule(type=kind, action=Action.REPLACE)


def body(*conditions: dict[str, Any]) -> dict[str, Any]:
    return {"metadata": {"name": "gpu-1", "uid": "u"}, "status": {"conditions": list(conditions)}}


def test_the_cache_keeps_what_a_rule_may_ask_for_and_little_else() -> None:
    when = "2026-01-02T00:00:00Z"
    rows = [
        {"type": "Ready", "status": "True", "lastTransitionTime": when, "message": "kubelet is posting"},
        {"type": "MemoryPressure", "status": "False", "lastTransitionTime": when},
        {"type": "DiskPressure", "status": "True", "lastTransitionTime": when, "message": "kubelet has disk pressure"},
        {"type": "GpuHealthy", "status": "False", "lastTransitionTime": when},
        {"type": "KernelDeadlock", "status": "False", "lastTransitionTime": when, "message": "all is well"},
        {"type": "GpuXid", "status": "True", "lastTransitionTime": when, "reason": "X", "message": "m" * 999},
        {"type": "Undated", "status": "True"},
        {"type": "Misdated", "status": "True", "lastTransitionTime": "yesterday"},
    ]
    view = node_view(slim_node(body(*rows)))
    assert view.ready is True
    assert [(c.type, c.status, c.message) for c in view.conditions] == [
        ("DiskPressure", "True", "kubelet has disk pressure"),
        ("KernelDeadlock", "False", ""),
        ("GpuXid", "True", "m" * 300),
    ]
    assert view.conditions == tuple(
        ConditionView(c.type, c.status, c.since, c.reason, c.message) for c in view.conditions
    )
