"""Job processes on a host that stands by: nobody's job is meant to run there, and none comes back to a rank of its own.

A rank that hangs (in a driver's call, say) outlives its job, its worker and the host's return to the spares. Pure.
"""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Final

from sparewheel.api.gpu_host import GpuHost
from sparewheel.api.node_health import NodeHealthStatus
from sparewheel.remediation.decide.drain import job_words

NO_WORK: Final = "it takes no work while "
"""How the reason of a host begins that is kept from work for them."""
UNTOLD: Final = f"{NO_WORK}its agent can't say whether job processes are alive on it (see the agent's log)"
TEST_REPORTED: Final = timedelta(seconds=15)
"""A report may still show the processes of a test job that ended so long ago, or two of the agent's reports ago."""


def left_over(host: GpuHost, health: NodeHealthStatus, now: datetime) -> str:
    """Why the host may take no work, and what helps; empty when its agent says that no job process is there.

    A spare's own Slurm test job is no reason.
    """
    if health.jobs_observed_time is None:
        return UNTOLD
    reported = max(TEST_REPORTED, 2 * timedelta(seconds=health.heartbeat_interval_seconds))
    alive = sorted({job.job_id for job in health.jobs if job.processes} - _own_test(host, now, reported))
    return f"{NO_WORK}processes of {job_words(alive)} are alive on it (reboot it if they don't end)" if alive else ""


def kept_from_work(host: GpuHost) -> bool:
    """Was that seen when it was last looked at?"""
    return host.status.reason.startswith(NO_WORK)


def _own_test(host: GpuHost, now: datetime, reported: timedelta) -> set[int]:
    last = host.status.slurm_test
    ended = last.job_id if last is not None and now - last.time <= reported else None
    return {job for job in (host.status.test_job_id, ended) if job is not None}
