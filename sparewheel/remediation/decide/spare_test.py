"""The Slurm test job on a spare: when it is due, what it runs, and what its outcome says of the spare. Pure.

A test that ran and failed, or hung, is the spare's fault. One that never started, was cancelled, or whose command could
not be run, says nothing about the spare: it has not passed, and isn't blamed.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import StrEnum

from sparewheel.api.gpu_host import GpuHost
from sparewheel.api.gpu_pool import GpuPoolSpec
from sparewheel.api.remediation import Remediation, RemediationStatus, ReplacementRecord
from sparewheel.api.spare_test import SpareTest
from sparewheel.remediation.decide.observations import Gone, JobView, Unknown
from sparewheel.remediation.decide.record import Change, copy, replacement

TEST_PREFIX = "sparewheel-test-"
"""Of the jobs' names, and of the reservation of a spare that is tested in an incident."""
AGAIN = timedelta(minutes=30)
"""A spare that passed is tested anew after this."""
LASTS = timedelta(hours=1)
"""A pass older than this is none."""
RETRY = timedelta(minutes=5)
"""After a test that told nothing."""
CANNOT_RUN = frozenset({126, 127})
"""A shell's exit codes for a command that it can't run or find."""
_NOT_ITS_FAULT = frozenset({"CANCELLED", "PREEMPTED", "DEADLINE"})
COUNT_GPUS = """if command -v nvidia-smi >/dev/null 2>&1; then
    seen=$(nvidia-smi -L | grep -c "^GPU ")
else
    seen=$(ls -d /dev/nvidia[0-9]* 2>/dev/null | wc -l)
fi
test "$seen" -ge "$SPAREWHEEL_GPUS"
"""


class Result(StrEnum):
    WAITS = "waits"
    PASSED = "passed"
    FAILED = "failed"
    """It ran, and failed or hung: the spare is ill."""
    UNTOLD = "untold"
    """It could not be made, or did not run: the spare has not passed, and nothing is known against it."""


@dataclass(frozen=True, slots=True)
class Verdict:
    result: Result
    why: str = ""


def script(command: str, gpus: int) -> str:
    return f"#!/bin/sh\nexport SPAREWHEEL_GPUS={gpus}\n{command.strip() or COUNT_GPUS.strip()}\n"


def verdict(job: JobView | Gone | Unknown, asked_at: datetime, timeout_seconds: int, now: datetime) -> Verdict:
    """``asked_at``: when the job was submitted. What can't be looked up is waited for, never a pass."""
    limit = timedelta(seconds=timeout_seconds)
    if isinstance(job, Unknown):
        return Verdict(Result.WAITS, f"slurmctld to say how the Slurm test job went ({job.error})")
    if isinstance(job, Gone):
        return Verdict(Result.UNTOLD, "Slurm does not know its test job any more")
    what = f"Slurm test job {job.job_id}"
    if job.ended:
        return _ended(job, what)
    began = asked_at if job.start_time is None else max(asked_at, job.start_time)
    if job.running and now - began > limit:
        return Verdict(Result.FAILED, f"{what} did not end within {timeout_seconds} s")
    if not job.running and now - asked_at > limit:
        return Verdict(
            Result.UNTOLD, f"{what} did not start within {timeout_seconds} s ({job.state_reason or 'no reason'})"
        )
    return Verdict(Result.WAITS, f"{what} to end")


def _ended(job: JobView, what: str) -> Verdict:
    if "COMPLETED" in job.states and not job.ended_badly:
        return Verdict(Result.PASSED)
    if job.states & _NOT_ITS_FAULT:
        return Verdict(Result.UNTOLD, f"{what} was taken off by somebody")
    if job.exit_code in CANNOT_RUN:
        return Verdict(
            Result.UNTOLD, f"{what} could not run its command (exit code {job.exit_code}); see spare_test.command"
        )
    how = f"signal {job.exit_signal}" if job.exit_signal else f"exit code {job.exit_code}"
    states = " ".join(sorted(job.states))
    return Verdict(Result.FAILED, f"{what} ended as {states} ({how})")


# -------------------------------------------------------------------- warm spares, ahead of need
def job_name(host: GpuHost) -> str:
    """One name for each test of a host: whoever asks for the same test again finds its job by it.

    Another after each result, and after each change of the host's phase: a job from before a repair tells nothing now.
    """
    last = host.status.slurm_test
    times = [time.timestamp() for time in (last and last.time, host.status.since) if time is not None]
    return f"{TEST_PREFIX}{host.spec.host}-{int(max(times, default=0))}"


def due(last: SpareTest | None, boot_id: str, now: datetime) -> bool:
    if last is None or last.boot_id != boot_id:
        return True
    return now - last.time >= (AGAIN if last.passed else RETRY)


def fresh(last: SpareTest | None, boot_id: str, now: datetime) -> bool:
    """Passed within the hour, in this boot."""
    return last is not None and last.passed and last.boot_id == boot_id and now - last.time < LASTS


def newest(jobs: Iterable[JobView]) -> JobView | None:
    return max(jobs, key=lambda job: job.job_id, default=None)


# -------------------------------------------------------------------- a cold spare, in an incident
def tests_cold(pool: GpuPoolSpec) -> bool:
    rule = pool.spare_test
    return rule is not None and rule.enabled and rule.cold and not pool.warm_spares


def awaits_test(remediation: Remediation, pool: GpuPoolSpec) -> bool:
    """The spare was let in, and its Slurm node is ours to bring back: it is tested first."""
    record, owned = remediation.status.replacement, remediation.status.owned
    ours = bool(owned.slurm_down) and not owned.foreign_reason
    return tests_cold(pool) and ours and record.tested_at is None


def reservation_name(incident: str) -> str:
    return f"{TEST_PREFIX}{incident}"


def incident_job_name(incident: str, host: str) -> str:
    return f"{TEST_PREFIX}{incident}-{host}"


def asked(now: datetime) -> Change:
    def change(record: ReplacementRecord) -> None:
        record.test_asked_at = record.test_asked_at or now

    return replacement(change)


def submitted(job_id: int) -> Change:
    def change(record: ReplacementRecord) -> None:
        record.test_job_id = job_id

    return replacement(change)


def passed(now: datetime) -> Change:
    def change(record: ReplacementRecord) -> None:
        record.tested_at, record.message = record.tested_at or now, ""

    return replacement(change)


def failed(found: Verdict, slurmd_started: datetime | None) -> Change:
    """The spare no longer counts as let in; the slurmd that came up on it is not the one that is waited for."""

    def change(status: RemediationStatus) -> RemediationStatus:
        new = copy(status)
        new.replacement.admitted_at = None
        new.replacement.test_failure, new.replacement.test_ill = found.why, found.result is Result.FAILED
        new.owned.slurmd_started_before = slurmd_started
        return new

    return change
