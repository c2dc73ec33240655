"""The last time that a record carries: what is written after it is not earlier, whoever's clock was set back.

Times of jobs are left out: they are Slurm's or the training's own, by other clocks. Pure.
"""

from __future__ import annotations

from datetime import datetime

from sparewheel.api.remediation import RemediationStatus


def latest(status: RemediationStatus, now: datetime) -> datetime:
    """``now``, or the record's last time where that is later: another replica's clock may be ahead of ours."""
    replacement, owned = status.replacement, status.owned
    known = [
        *(time for stage in status.stages for time in (stage.started_at, stage.ended_at)),
        *(replacement.claimed_at, replacement.proven_off_at, replacement.join_asked_at, replacement.joined_at),
        *(replacement.checked_at, replacement.admitted_at, replacement.lifted_at, replacement.struck_again_at),
        *(replacement.worker_deleted_at, replacement.slurm_restored_at, replacement.quarantined_at),
        *(owned.slurm_struck_at, status.fence_decided_at),
    ]
    return max([now, *(time for time in known if time is not None)])
