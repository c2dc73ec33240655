"""Changes of the journal as pure functions: status in, new status out. Stages never go back, times are set once."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime

from sparewheel.api.faults import Fault
from sparewheel.api.ladder import RungResult
from sparewheel.api.remediation import (
    NodeStage,
    Outcome,
    Remediation,
    RemediationStatus,
    ReplacementRecord,
    StageRecord,
)
from sparewheel.remediation.decide.policy import severity

Change = Callable[[RemediationStatus], RemediationStatus]

ORDER: tuple[NodeStage, ...] = tuple(NodeStage)
MAX_FOLDED_FAULTS = 50
_UNDONE = {
    Outcome.CANCELLED: "called off before it was done",
    Outcome.SUPERSEDED: "not needed any more",
    Outcome.FAILED: "given up before it was done",
}
"""What is said of a stage under way when an incident ends so."""


def copy(status: RemediationStatus) -> RemediationStatus:
    return status.model_copy(deep=True)


def stage_record(status: RemediationStatus, stage: NodeStage) -> StageRecord | None:
    return next((record for record in status.stages if record.name is stage), None)


def ended(status: RemediationStatus, stage: NodeStage) -> bool:
    record = stage_record(status, stage)
    return record is not None and record.ended_at is not None


def started(status: RemediationStatus, stage: NodeStage) -> bool:
    return stage_record(status, stage) is not None


def is_open(remediation: Remediation) -> bool:
    return remediation.status.outcome is Outcome.OPEN


def current_stage(status: RemediationStatus) -> NodeStage:
    """The stage under way: the first begun one that has not ended, else the last that has."""
    begun = sorted(status.stages, key=lambda record: ORDER.index(record.name))
    running = [record.name for record in begun if record.ended_at is None]
    if running:
        return running[0]
    return begun[-1].name if begun else NodeStage.DETECTED


def begin(stage: NodeStage, now: datetime) -> Change:
    """Journal that a stage begins, before its first side effect; a stage begun before counts one more attempt."""

    def change(status: RemediationStatus) -> RemediationStatus:
        new = copy(status)
        record = stage_record(new, stage)
        if record is None:
            new.stages.append(StageRecord(name=stage, started_at=now, attempts=1))
        elif record.ended_at is None:
            record.attempts += 1
        new.stage = current_stage(new)
        return new

    return change


def begin_once(stage: NodeStage, now: datetime) -> Change:
    """As ``begin``, without counting an attempt when the stage runs already."""
    first = begin(stage, now)
    return lambda status: status if started(status, stage) else first(status)


def end(stage: NodeStage, now: datetime, message: str = "") -> Change:
    """Journal that the effect of a stage was seen. Ending twice keeps the first time."""

    def change(status: RemediationStatus) -> RemediationStatus:
        new = copy(status)
        record = stage_record(new, stage)
        if record is None:
            record = StageRecord(name=stage, started_at=now, attempts=1)
            new.stages.append(record)
        if record.ended_at is None:
            record.ended_at = max(now, record.started_at)
            record.message = message or record.message
        new.stage = current_stage(new)
        return new

    return change


def reopen_veto(now: datetime) -> Change:
    """A veto that comes back continues the one record of the stage, so that the wait stays one line."""

    def change(status: RemediationStatus) -> RemediationStatus:
        new = copy(status)
        record = stage_record(new, NodeStage.VETOED)
        if record is None:
            new.stages.append(StageRecord(name=NodeStage.VETOED, started_at=now, attempts=1))
        elif record.ended_at is not None:
            record.ended_at = None
            record.attempts += 1
        new.stage = current_stage(new)
        return new

    return change


def waiting(text: str, look_at: datetime | None) -> Change:
    def change(status: RemediationStatus) -> RemediationStatus:
        if status.waiting_for == text and (not text or status.next_look_at is not None):
            return status
        new = copy(status)
        new.waiting_for, new.next_look_at = text, look_at if text else None
        return new

    return change


def remark(text: str) -> Change:
    """What people should know of an open incident beside what it waits for."""

    def change(status: RemediationStatus) -> RemediationStatus:
        if status.outcome is not Outcome.OPEN or status.message == text:
            return status
        new = copy(status)
        new.message = text
        return new

    return change


def replacement(update: Callable[[ReplacementRecord], None]) -> Change:
    def change(status: RemediationStatus) -> RemediationStatus:
        new = copy(status)
        update(new.replacement)
        return new

    return change


def drop_spare(host: str, *, refused: bool, message: str) -> Change:
    """Forget the spare (it was refused, or the claim was lost) so that another can be claimed."""

    def change(status: RemediationStatus) -> RemediationStatus:
        new = copy(status)
        record = new.replacement
        if record.spare_host != host or record.admitted_at is not None:
            return status
        if record.spare_slurm_node is not None:
            record.lifted_at = None
        record.spare_host = record.spare_node = record.spare_slurm_node = None
        record.choice, record.jobs_seen = "", []
        record.claimed_at = record.join_asked_at = record.joined_at = record.checked_at = None
        record.spare_was_off, record.spare_refused, record.spare_silent_since = False, False, None
        record.test_asked_at = record.test_job_id = record.tested_at = None
        record.test_failure, record.test_ill = "", False
        record.message = message
        if refused and host not in record.refused_hosts:
            record.refused_hosts.append(host)
        return new

    return change


def fold(fault: Fault) -> Change:
    """A later fault of the same node; one known by code and device is written over once it asks for more."""

    def change(status: RemediationStatus) -> RemediationStatus:
        for index, known in enumerate(status.more_faults):
            if (known.code, known.device) == (fault.code, fault.device):
                if severity(known.action) >= severity(fault.action) and known.count >= fault.count:
                    return status
                new = copy(status)
                new.more_faults[index] = fault
                return new
        if len(status.more_faults) >= MAX_FOLDED_FAULTS:
            return status
        new = copy(status)
        new.more_faults.append(fault)
        return new

    return change


def veto_escalated(now: datetime) -> Change:
    def change(status: RemediationStatus) -> RemediationStatus:
        if status.veto_escalated_at is not None:
            return status
        new = copy(status)
        new.veto_escalated_at = now
        return new

    return change


def recovered(why: str, now: datetime) -> Change:
    """A node that was only cordoned is well again; it is given back next. Said once."""

    def change(status: RemediationStatus) -> RemediationStatus:
        if status.recovered_at is not None:
            return status
        new = copy(status)
        new.recovered_at, new.recovered_why = now, why
        return new

    return change


def close(outcome: Outcome, now: datetime, message: str, cancelled_by: str = "") -> Change:
    """End the incident: stages still running end here, nothing is owned any more."""

    def change(status: RemediationStatus) -> RemediationStatus:
        if status.outcome is not Outcome.OPEN:
            return status
        new = copy(status)
        for record in new.stages:
            if record.ended_at is None:
                record.ended_at = max(now, record.started_at)
                if record.name is not NodeStage.CLOSED:
                    record.message = record.message or _UNDONE.get(outcome, "")
        for rung in new.ladder.rungs:
            if rung.ended_at is None:
                rung.ended_at, rung.result = max(now, rung.asked_at), RungResult.WITHDRAWN
        new = end(NodeStage.CLOSED, now)(new)
        new.outcome, new.message, new.waiting_for, new.next_look_at = outcome, message, "", None
        new.cancelled_by = cancelled_by
        new.cancelled_why = new.cancelled_why if cancelled_by else ""
        new.owned.cordon = new.owned.fault_taint = False
        new.owned.slurm_down, new.owned.held_nodes = [], []
        if outcome is not Outcome.HEALED:
            new.replacement.message = ""
        return new

    return change


def chain(*changes: Change) -> Change:
    """Several changes written as one."""

    def change(status: RemediationStatus) -> RemediationStatus:
        for one in changes:
            status = one(status)
        return status

    return change
