"""Records, rungs and answers for tests of the ladder's decisions."""

from __future__ import annotations

from typing import Any

from sparewheel.api.enums import NodeActionKind, NodeActionState
from sparewheel.api.faults import Action, Fault
from sparewheel.api.ladder import LadderRule, Rung, RungRecord, RungResult
from sparewheel.api.names import ANNOTATION_NODE_ACTION
from sparewheel.api.node_action import to_annotation
from sparewheel.api.node_health import NodeAction
from sparewheel.api.remediation import NodeStage, Remediation
from sparewheel.remediation.decide import ladder
from sparewheel.remediation.decide.next_step import next_step
from sparewheel.remediation.decide.node_step import NodeAction as Step
from sparewheel.remediation.decide.node_step import NodeStep, Situation
from sparewheel.remediation.decide.observations import (
    HealthView,
    Observations,
)
from tests.support.incidents import at, fault, fenced, node, pool, stage

RESET, REBOOT = NodeActionKind.RESET_GPU, NodeActionKind.REBOOT
RUNGS = [Rung(kind=RESET, timeout_seconds=60), Rung(kind=REBOOT, timeout_seconds=600)]
RULE = LadderRule(rungs=RUNGS)
PCI = "0000:17:00"
CORDONED = node(unschedulable=True)


def reset_fault(device: str = PCI, action: Action = Action.RESET_GPU, code: str = "XID 119") -> Fault:
    return fault(code, device, action=action)


def climbing(*rungs: RungRecord, more: tuple[Fault, ...] = (), first: Fault | None = None) -> Remediation:
    """A fenced node whose jobs have left; its ladder has these rungs behind it."""
    record = fenced(jobs=[])
    record.spec.fault, record.spec.ladder = first or reset_fault(), RUNGS
    record.status.more_faults = list(more)
    record.status.stages.append(stage(NodeStage.MENDED, 2))
    record.status.ladder.rungs = list(rungs)
    return record


def rung(kind: NodeActionKind = RESET, asked: float = 10, **fields: Any) -> RungRecord:
    values: dict[str, Any] = {
        "id": "gpu-7-xid-79-0.1",
        "device": PCI if kind is RESET else "",
        "boot_id": "boot",
        "timeout_seconds": 60 if kind is RESET else 600,
        **fields,
    }
    return RungRecord(kind=kind, asked_at=at(asked), **values)


def ended_rung(result: RungResult, kind: NodeActionKind = RESET, **fields: Any) -> RungRecord:
    return rung(kind, ended_at=at(40), result=result, **fields)


def answer(state: NodeActionState, request: str = "gpu-7-xid-79-0.1", **fields: Any) -> NodeAction:
    return NodeAction(id=request, state=state, time=at(20), **fields)


def health(action: NodeAction | None = None, **fields: Any) -> HealthView:
    values: dict[str, Any] = {
        "boot_id": "boot",
        "heard_seconds_ago": 1.0,
        "heard_since_fence": True,
        "jobs_alive": frozenset[int](),
        "gpus_expected": 8,
        "gpus_seen": 8,
        "action": action,
        **fields,
    }
    return HealthView(**values)


def asked(of: RungRecord) -> Any:
    note = to_annotation(ladder.request_of(of))
    return node(unschedulable=True, annotations={ANNOTATION_NODE_ACTION: note})


def decide(record: Remediation, seen: Observations, seconds: float = 20) -> NodeStep:
    return next_step(record, seen, Situation(pool().spec, at(seconds)))


def actions(record: Remediation, seen: Observations, seconds: float = 20) -> list[Step]:
    return [todo.action for todo in decide(record, seen, seconds).todo]


FAULTY = (reset_fault(),)
