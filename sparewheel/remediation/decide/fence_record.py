"""The journal of a fence: which was chosen, and what the incident owns by it in Slurm. Pure."""

from __future__ import annotations

from datetime import datetime

from sparewheel.api.remediation import FenceKind, NodeStage, RemediationStatus
from sparewheel.remediation.decide.record import Change, begin, copy, current_stage, ended, stage_record


def fence_decided(kind: FenceKind, now: datetime, breaker_since: datetime | None = None) -> Change:
    """Which fence was chosen; chosen once, so that a resumed incident does the same."""

    def change(status: RemediationStatus) -> RemediationStatus:
        if status.fence is not FenceKind.UNDECIDED:
            return status
        new = copy(status)
        new.fence, new.fence_decided_at, new.drained_under = kind, now, breaker_since
        return new

    return change


def fence_again(now: datetime) -> Change:
    """More is to be done than a cordon or a drain: the stage goes on, and what is owned stays owned."""

    def change(status: RemediationStatus) -> RemediationStatus:
        if status.fence not in {FenceKind.CORDON, FenceKind.DRAIN}:
            return status
        new = begin(NodeStage.FENCED, now)(status)
        record = stage_record(new, NodeStage.FENCED)
        if record is not None and record.ended_at is not None:
            record.ended_at = None
            record.attempts += 1
        new.fence, new.jobs_listed_at = FenceKind.UNDECIDED, None
        new.recovered_at, new.recovered_why = None, ""
        new.stage = current_stage(new)
        return new

    return change


def leave_slurm(reason: str) -> Change:
    """Somebody else took the Slurm node out of service after us, for this reason: it is theirs to bring back."""

    def change(status: RemediationStatus) -> RemediationStatus:
        new = copy(status)
        new.owned.foreign_reason = new.owned.foreign_reason or reason
        return new

    return change


def own_slurm(name: str, now: datetime, slurmd_started: datetime | None, foreign_reason: str) -> Change:
    """Journal, before the strike, that this incident strikes the Slurm node, and which instance ran there."""

    def change(status: RemediationStatus) -> RemediationStatus:
        new = copy(status)
        if ended(new, NodeStage.FENCED):
            return status
        if name not in new.owned.slurm_down:
            new.owned.slurm_down.append(name)
            new.owned.slurmd_started_before = slurmd_started
            new.owned.foreign_reason = foreign_reason
            new.replacement.slurm_restored_at = None  # struck after all, once a warm spare had taken over already
        new.owned.slurm_struck_at = now  # a strike that is done again gives the whole grace again
        return new

    return change


def disown_slurm(name: str, now: datetime) -> Change:
    def change(status: RemediationStatus) -> RemediationStatus:
        new = copy(status)
        new.owned.slurm_down = [owned for owned in new.owned.slurm_down if owned != name]
        if not new.owned.slurm_down and new.replacement.slurm_restored_at is None:
            new.replacement.slurm_restored_at = now
        return new

    return change
