"""The search for a spare, beside the grace: claim, join, check, admit, each as early as it is safe."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import StrEnum

from sparewheel.api.gpu_pool import GpuPoolSpec
from sparewheel.api.remediation import FenceKind, NodeStage, Remediation, ReplacementRecord
from sparewheel.remediation.decide.budget import FleetLimits, replacement_refused
from sparewheel.remediation.decide.cancel import asked_to_cancel
from sparewheel.remediation.decide.ladder import stays_first
from sparewheel.remediation.decide.record import ended, is_open
from sparewheel.remediation.decide.treated import on_hold

NO_SPARE_SECONDS = 10.0
SLOT_SECONDS = 5.0
JOIN_DEADLINE_SECONDS = 600.0
"""A spare that has not passed its checks this long after its claim is given up for another."""
SILENT_SECONDS = 30.0
"""A spare that was on and doesn't answer, or is refused, for this long gives way to another, where one is free."""


class SpareAction(StrEnum):
    NONE = "none"
    CLAIM = "claim"
    JOIN = "join"
    CHECK = "check"
    ADMIT = "admit"
    TRY_ANOTHER = "try_another"
    """It doesn't answer and nothing else is known against it: another is tried, this one stays a spare."""
    GIVE_UP = "give_up"


@dataclass(frozen=True, slots=True)
class SpareStep:
    action: SpareAction
    message: str = ""
    """What it waits for; journalled so that people see it."""
    look_again_seconds: float = 1.0
    done: bool = False


def next_spare_step(
    remediation: Remediation,
    pool: GpuPoolSpec,
    veto: str,
    incidents: Iterable[Remediation],
    now: datetime,
    fleet: FleetLimits | None = None,
    *,
    another_free: bool = False,
) -> SpareStep:
    """The next step; ``veto`` is empty when nothing vetoes. A claim already made is kept through a veto.

    ``another_free``: another spare could take the place at once, and nothing is known against it.
    """
    record = remediation.status.replacement
    if not is_open(remediation) or remediation.spec.dry_run or record.admitted_at is not None:
        return SpareStep(SpareAction.NONE, done=True)
    early = _before_the_search(remediation, veto)
    if early is not None:
        return early
    if record.spare_host is None:
        waits = replacement_refused(remediation.metadata.name, remediation.spec.pool, pool, incidents, now, fleet)
        return SpareStep(SpareAction.NONE, waits, SLOT_SECONDS) if waits else SpareStep(SpareAction.CLAIM)
    if record.claimed_at is not None and now - record.claimed_at > timedelta(seconds=JOIN_DEADLINE_SECONDS):
        if not record.spare_refused:
            return SpareStep(SpareAction.GIVE_UP, f"spare {record.spare_host} did not become ready in time")
        return SpareStep(SpareAction.TRY_ANOTHER, f"spare {record.spare_host} was not let in by its backend")
    if another_free and silent(record, now):
        what = "was not let in by its backend" if record.spare_refused else "was on and did not answer"
        why = f"spare {record.spare_host} {what} for {SILENT_SECONDS:.0f} s"
        return SpareStep(SpareAction.TRY_ANOTHER, why)
    action = SpareAction.JOIN if record.joined_at is None else SpareAction.CHECK
    return SpareStep(action if record.checked_at is None else SpareAction.ADMIT)


def _before_the_search(remediation: Remediation, veto: str) -> SpareStep | None:
    status = remediation.status
    stays = on_hold(remediation) or stays_first(remediation) or status.fence in {FenceKind.CORDON, FenceKind.JOBS}
    if stays or not ended(status, NodeStage.FENCED):
        return SpareStep(SpareAction.NONE, look_again_seconds=0.5)
    if status.replacement.test_failure:
        return SpareStep(SpareAction.GIVE_UP, status.replacement.test_failure)
    if veto or asked_to_cancel(remediation):
        return SpareStep(SpareAction.NONE, look_again_seconds=NO_SPARE_SECONDS)
    return None


def silent(record: ReplacementRecord, now: datetime) -> bool:
    """Was the spare on when it was asked to join, and has it not answered since? One that boots may take its time.

    One that its backend refuses boots never.
    """
    since = record.spare_silent_since
    if since is None or record.joined_at is not None or (record.spare_was_off and not record.spare_refused):
        return False
    return now - since >= timedelta(seconds=SILENT_SECONDS)
