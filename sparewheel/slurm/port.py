"""What the rest of the product asks of Slurm. ``client.py`` does it over slurmrestd; tests do it in memory."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Protocol


class SlurmError(Exception):
    """slurmrestd refused or could not be asked. HTTP 200 with an ``errors`` list is this too."""


class SlurmUnavailableError(SlurmError):
    """No answer, time-out, 5xx or an expired token: nothing is known."""


class SlurmNotFoundError(SlurmError):
    """slurmctld answered that it does not know the node or job."""


@dataclass(frozen=True, slots=True)
class SlurmNode:
    name: str
    states: frozenset[str]
    """Upper case flags, e.g. ``{"DOWN", "DRAIN"}``."""
    reason: str = ""
    reason_changed_at: datetime | None = None
    boot_time: datetime | None = None
    slurmd_start_time: datetime | None = None
    comment: str = ""
    partitions: tuple[str, ...] = ()
    real_memory_mib: int = 0
    gres: str = ""


@dataclass(frozen=True, slots=True)
class SlurmJob:
    job_id: int
    states: frozenset[str]
    """Upper case, e.g. ``{"RUNNING"}``, ``{"PENDING"}``, ``{"FAILED"}``, ``{"RUNNING", "COMPLETING"}``."""
    user: str = ""
    name: str = ""
    partition: str = ""
    nodes: tuple[str, ...] = ()
    restart_count: int = 0
    batch: bool = True
    requeue: bool = True
    """The job's own Requeue setting (``--no-requeue`` makes it False)."""
    expedited: bool = False
    wanted_nodes: tuple[str, ...] = ()
    """The nodes that it names itself (``--nodelist``)."""
    state_reason: str = ""
    priority: int | None = None
    """0: it is held. None where it is not told."""
    exit_code: int | None = None
    exit_signal: int | None = None
    array_job_id: int | None = None
    het_job_id: int | None = None
    submit_time: datetime | None = None
    start_time: datetime | None = None
    end_time: datetime | None = None
    extra: str = ""
    comment: str = ""


@dataclass(frozen=True, slots=True)
class SlurmReservation:
    """Nodes kept for some users alone. No other job starts there, and it outlives a restart of slurmctld."""

    name: str
    nodes: tuple[str, ...] = ()
    users: tuple[str, ...] = ()
    flags: frozenset[str] = frozenset()
    """Upper case, e.g. ``{"MAINT", "SPEC_NODES"}``."""
    start_time: datetime | None = None
    end_time: datetime | None = None


@dataclass(frozen=True, slots=True)
class BatchJob:
    """A batch job of ours on one node. It is never requeued, and what it prints is kept nowhere."""

    name: str
    node: str
    partition: str
    reservation: str
    script: str
    gpus: int
    minutes: int
    """After which Slurm itself ends it."""


@dataclass(frozen=True, slots=True)
class Ping:
    """slurmctld's answer to a ping."""

    responding: bool
    version: str = ""
    hosts: tuple[str, ...] = field(default=())


class Slurm(Protocol):
    """Asynchronous access to one Slurm cluster. Every method may raise any SlurmError."""

    async def ping(self) -> Ping: ...

    async def node(self, name: str) -> SlurmNode: ...

    async def nodes(self) -> list[SlurmNode]: ...

    async def set_node_state(self, name: str, states: Sequence[str], reason: str) -> None:
        """``["DOWN"]``, ``["DRAIN"]``, ``["UNDRAIN"]``, ``["RESUME"]`` or ``["IDLE"]``."""
        ...

    async def delete_node(self, name: str) -> None:
        """Only a dynamic node without jobs that is in no reservation; one that isn't there is deleted already."""
        ...

    async def job(self, job_id: int) -> SlurmJob: ...

    async def jobs(self) -> list[SlurmJob]:
        """All jobs slurmctld still remembers (MinJobAge), ended ones too."""
        ...

    async def requeue(self, job_id: int) -> None:
        """Requeue a running or ended batch job."""
        ...

    async def update_job(
        self,
        job_id: int,
        *,
        comment: str | None = None,
        priority: int | None = None,
        hold: bool | None = None,
    ) -> None: ...

    async def submit_batch(self, job: BatchJob) -> int:
        """As our own Slurm user; the job's number."""
        ...

    async def cancel_job(self, job_id: int) -> None:
        """One that isn't there, or has ended, is cancelled already."""
        ...

    async def reservations(self) -> list[SlurmReservation]: ...

    async def put_reservation(self, wanted: SlurmReservation) -> None:
        """Make it, or make the one of this name so; both times are required. Slurm takes a start up to 10 min ago."""
        ...

    async def delete_reservation(self, name: str) -> None:
        """One that isn't there is deleted already."""
        ...
