"""What jobs of a played data centre show: processes on a node, and the first step that they report."""

from __future__ import annotations

import json
from datetime import datetime, timedelta
from functools import lru_cache

from sparewheel.slurm.memory import MemoryJob, MemorySlurm

STEP_AFTER_START_SECONDS = 1.5


def alive_on(slurm: MemorySlurm, name: str) -> list[int]:
    """Jobs with processes on the node."""
    jobs = slurm.job_table.values()
    there = {job.job_id for job in jobs if name in job.completing or (job.state == "RUNNING" and name in job.nodes)}
    now = slurm.clock.monotonic_seconds()
    left = slurm.node_table[name].left if name in slurm.node_table else {}
    return sorted(there | {job for job, until in left.items() if until > now})


def reported_attempt(job: MemoryJob) -> int:
    """The attempt whose first step the job has reported; -1 before any."""
    return _attempt_in(job.extra) if job.extra else -1


@lru_cache
def _attempt_in(extra: str) -> int:
    return int(json.loads(extra)["sparewheel"]["attempt"])


def report_step(job: MemoryJob, now: datetime) -> None:
    """The training reports its first step a while after its start."""
    if job.state != "RUNNING" or job.start_time is None or reported_attempt(job) == job.restart_count:
        return
    if now >= job.start_time + timedelta(seconds=STEP_AFTER_START_SECONDS):
        first = 100 * job.restart_count + 1
        report = {
            "attempt": job.restart_count,
            "resumed_from_step": first - 1 if job.restart_count else None,
            "first_step": first,
            "first_step_time": now.isoformat(timespec="milliseconds").replace("+00:00", "Z"),
        }
        job.extra = json.dumps({"sparewheel": report})
