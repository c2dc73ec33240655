"""The agent's count of job processes: by job, also between two heartbeats, and unknown where it can't be read."""

from __future__ import annotations

from pathlib import Path

from sparewheel.agent.processes import job_processes
from sparewheel.agent.report import condition
from tests.support.agent_host import XID_79, Host


def test_processes_of_jobs_are_counted_by_job(tmp_path: Path) -> None:
    for pid, environment in {
        "1": b"",
        "7": b"A=b\0SLURM_JOB_ID=42\0",
        "8": b"SLURM_JOB_ID=42",
        "9": b"XSLURM_JOB_ID=3",
    }.items():
        (tmp_path / pid).mkdir()
        (tmp_path / pid / "environ").write_bytes(environment)
    (tmp_path / "10").mkdir()
    (tmp_path / "version").touch()
    found = job_processes(tmp_path)
    assert (found.jobs, found.pids) == ({42: 2}, {"1", "7", "8", "9", "10"})
    assert job_processes(tmp_path, {"7"}).jobs == {42: 1}


def job_runs(host: Host, job: int) -> Path:
    folder = host.root / "proc/77"
    folder.mkdir()
    (folder / "environ").write_bytes(f"SLURM_JOB_ID={job}".encode())
    return folder


def test_a_job_that_was_there_between_two_heartbeats_is_told_with_the_fault_that_ended_it(host: Host) -> None:
    host.turn()
    folder = job_runs(host, 42)
    host.turn(2)
    (folder / "environ").unlink()
    folder.rmdir()
    host.turn(2)
    assert host.api.status.jobs == []
    host.write(XID_79)
    host.turn(0.1)
    assert [job.job_id for job in host.api.status.jobs] == [42]
    host.turn(1)
    assert [(job.job_id, job.processes) for job in host.api.status.jobs] == [(42, 0)]
    for _ in range(40):
        host.turn()
    assert host.api.status.jobs == []


def test_jobs_once_seen_survive_a_look_that_fails(host: Host) -> None:
    job_runs(host, 42)
    host.turn()
    (host.root / "proc").rename(host.root / "noproc")
    host.turn(5)
    (host.root / "proc").mkdir()
    host.turn(5)
    host.turn(5)
    assert [(job.job_id, job.processes) for job in host.api.status.jobs] == [(42, 0)]


def test_jobs_that_could_not_be_read_are_unknown_not_none(host: Host) -> None:
    (host.root / "proc").rename(host.root / "noproc")
    host.turn()
    assert host.api.status.jobs_observed_time is None
    assert condition(host.agent._watcher.seen)[0] == "True"  # pyright: ignore[reportPrivateUsage]
