"""The last time that a record carries: what is written after it is not earlier, whoever's clock was set back.

A clock that is far ahead is believed only a little: else every deadline that is measured against the world, and every
reservation's end, would be as wrong as it is, for as long as ours takes to catch up. Times of jobs are left out: they
are Slurm's or the training's own, by other clocks. Pure.
"""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Final

from sparewheel.api.remediation import RemediationStatus

CLOCKS_APART: Final = timedelta(minutes=5)
"""Clocks of two replicas that are kept at all are nearer to each other than this."""


def latest(status: RemediationStatus, now: datetime) -> datetime:
    """``now``, or the record's last time where that is later: another replica's clock may be ahead of ours. But never
    more than ``CLOCKS_APART`` later."""
    replacement, owned = status.replacement, status.owned
    known = [
        *(time for stage in status.stages for time in (stage.started_at, stage.ended_at)),
        *(replacement.claimed_at, replacement.proven_off_at, replacement.join_asked_at, replacement.joined_at),
        *(replacement.checked_at, replacement.admitted_at, replacement.lifted_at, replacement.struck_again_at),
        *(replacement.worker_deleted_at, replacement.slurm_restored_at, replacement.quarantined_at),
        *(owned.slurm_struck_at, status.fence_decided_at),
    ]
    return min(now + CLOCKS_APART, max([now, *(time for time in known if time is not None)]))


def seconds_since(time: datetime, now: datetime, seen_seconds: float | None) -> float:
    """How long ago ``time`` surely was. ``seen_seconds``: since this controller saw that it had come, by a clock that
    nobody sets; None where it did not look.

    After a fail-over the successor has seen it for a moment only, so what the record says counts too, less what two
    clocks may be apart: neither does a wait begin anew with each leader, nor is it cut short by a clock that is wrong.
    """
    said = now - time
    if seen_seconds is None:
        return said.total_seconds()
    return max(seen_seconds, (said - CLOCKS_APART).total_seconds())
