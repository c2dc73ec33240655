"""Nodes and jobs of the Slurm in memory, and a job as slurmrestd shows it."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime
from typing import Final

from sparewheel.slurm.port import SlurmJob

LIVE: Final = frozenset({"RUNNING", "PENDING"})


@dataclass(slots=True)
class MemoryNode:
    """Whole nodes are given to jobs, as gang-scheduled training takes them."""

    name: str
    down: bool = False
    drain: bool = False
    reason: str = ""
    reason_changed_at: datetime | None = None
    boot_time: datetime | None = None
    slurmd_start_time: datetime | None = None
    silent_until: float = 0.0
    """Monotonic: until then slurmctld waits for its answer to a ping."""
    slurmd_up: bool = True
    """False from the end of its worker until another one registers: nobody answers a ping."""
    left: dict[int, float] = field(default_factory=dict[int, float])
    """Jobs that a strike ended and whose ranks still run here, until when (monotonic): Slurm doesn't wait for them."""


@dataclass(slots=True)
class MemoryJob:
    job_id: int
    node_count: int = 1
    user: str = "alice"
    name: str = "train"
    batch: bool = True
    requeue: bool = True
    expedited: bool = True
    save_seconds: float = 2.0
    """How long each rank saves after TERM."""
    hangs: bool = False
    """Its ranks on a node that is struck answer no signal: they run until the worker or the host ends, or a test ends
    them."""
    array_job_id: int | None = None
    het_job_id: int | None = None
    priority: int = 1
    state: str = "PENDING"
    held: bool = False
    requeue_held: bool = False
    """Slurm's own hold after a bad end; its state shows it until the job starts, also once it was released."""
    expediting: bool = False
    state_reason: str = ""
    nodes: list[str] = field(default_factory=list[str])
    kept: list[str] = field(default_factory=list[str])
    """Survivors, which an expedited job takes again where nobody else had them meanwhile."""
    completing: dict[str, float] = field(default_factory=dict[str, float])
    """Nodes where ranks still save, until when (monotonic)."""
    begin_seconds: float = 0.0
    restart_count: int = 0
    exit_code: int | None = None
    exit_signal: int | None = None
    submit_time: datetime | None = None
    start_time: datetime | None = None
    end_time: datetime | None = None
    extra: str = ""
    comment: str = ""
    reservation: str = ""
    """The only one on whose nodes it runs; on nodes of no reservation where it names none."""
    wanted_node: str = ""
    script: str = ""
    started_monotonic: float = 0.0


def job_view(job: MemoryJob) -> SlurmJob:
    states = {job.state}
    states |= {"COMPLETING"} if job.completing else set()
    states |= {"REQUEUE_HOLD"} if job.requeue_held else set()
    states |= {"EXPEDITING"} if job.expediting and job.state == "PENDING" else set()
    return SlurmJob(
        job.job_id,
        frozenset(states),
        user=job.user,
        name=job.name,
        partition="gpu",
        nodes=tuple(job.nodes or job.completing),
        wanted_nodes=(job.wanted_node,) if job.wanted_node else (),
        restart_count=job.restart_count,
        batch=job.batch,
        requeue=job.requeue,
        expedited=job.expedited,
        state_reason=job.state_reason,
        priority=0 if job.held else job.priority,
        exit_code=job.exit_code,
        exit_signal=job.exit_signal,
        array_job_id=job.array_job_id,
        het_job_id=job.het_job_id,
        submit_time=job.submit_time,
        start_time=job.start_time,
        end_time=None if job.state in LIVE else job.end_time,
        extra=job.extra,
        comment=job.comment,
    )
