"""The few fields of slurmrestd that we read, checked against data_parser v0.0.44 and v0.0.45 of Slurm 26.05."""

from __future__ import annotations

import sys
from datetime import UTC, datetime
from functools import lru_cache
from typing import Any

import msgspec

from sparewheel.slurm.hostlist import expand
from sparewheel.slurm.port import Ping, SlurmJob, SlurmNode, SlurmReservation

ENDED_STATES = frozenset({
    "BOOT_FAIL", "CANCELLED", "COMPLETED", "DEADLINE", "FAILED", "NODE_FAIL", "OUT_OF_MEMORY", "PREEMPTED", "TIMEOUT",
})  # fmt: skip


class Number(msgspec.Struct):
    """A number that may be unset or infinite."""

    set: bool = False
    infinite: bool = False
    number: float = 0


Numeric = Number | float | None


def number_of(value: Numeric) -> float | None:
    """The number, or None where it is unset or infinite."""
    if isinstance(value, Number):
        return value.number if value.set and not value.infinite else None
    return value


def whole(value: Numeric) -> int | None:
    number = number_of(value)
    return None if number is None else int(number)


def moment(value: Numeric) -> datetime | None:
    """A time in seconds since 1970; Slurm writes 0 for never."""
    number = number_of(value)
    return datetime.fromtimestamp(number, UTC) if number else None


@lru_cache(maxsize=256)
def _states(names: tuple[str, ...]) -> frozenset[str]:
    """Of ten thousand nodes most are in one of a few states; each stands once."""
    return frozenset(name.upper() for name in names)


@lru_cache(maxsize=256)
def _once(names: tuple[str, ...]) -> tuple[str, ...]:
    return names


class Problem(msgspec.Struct):
    """An entry of ``errors`` or ``warnings``."""

    description: str | None = None
    error: str | None = None
    error_number: int = 0
    source: str | None = None

    def __str__(self) -> str:
        texts = [text for text in (self.error, self.description) if text]
        return ": ".join(dict.fromkeys(texts)) or f"error {self.error_number}"


class NodeRecord(msgspec.Struct):
    name: str
    state: list[str] = []
    reason: str = ""
    reason_changed_at: Numeric = None
    comment: str = ""
    boot_time: Numeric = None
    slurmd_start_time: Numeric = None
    partitions: list[str] = []
    real_memory: Numeric = None
    gres: str = ""

    def view(self) -> SlurmNode:
        return SlurmNode(
            name=sys.intern(self.name),
            states=_states(tuple(self.state)),
            reason=self.reason,
            reason_changed_at=moment(self.reason_changed_at),
            boot_time=moment(self.boot_time),
            slurmd_start_time=moment(self.slurmd_start_time),
            comment=self.comment,
            partitions=_once(tuple(self.partitions)),
            real_memory_mib=whole(self.real_memory) or 0,
            gres=sys.intern(self.gres),
        )


class SignalRecord(msgspec.Struct):
    id: Numeric = None


class ExitRecord(msgspec.Struct):
    status: list[str] = []
    return_code: Numeric = None
    signal: SignalRecord | None = None


class JobRecord(msgspec.Struct):
    job_id: int
    job_state: list[str] = []
    user_name: str = ""
    name: str = ""
    partition: str = ""
    nodes: str = ""
    required_nodes: str | None = None
    restart_cnt: Numeric = None
    batch_flag: bool = False
    requeue: bool = False
    flags: list[str] = []
    state_reason: str = ""
    priority: Numeric = None
    exit_code: ExitRecord | None = None
    array_job_id: Numeric = None
    het_job_id: Numeric = None
    submit_time: Numeric = None
    start_time: Numeric = None
    end_time: Numeric = None
    extra: str | None = None
    comment: str | None = None

    def view(self) -> SlurmJob:
        states = _states(tuple(self.job_state))
        signal = self.exit_code.signal if self.exit_code else None
        return SlurmJob(
            job_id=self.job_id,
            states=states,
            user=self.user_name,
            name=self.name,
            partition=self.partition,
            nodes=expand(self.nodes),
            wanted_nodes=expand(self.required_nodes or ""),
            restart_count=whole(self.restart_cnt) or 0,
            batch=self.batch_flag,
            requeue=self.requeue,
            expedited="EXPEDITED_REQUEUE" in self.flags,
            state_reason=self.state_reason,
            priority=whole(self.priority),
            exit_code=whole(self.exit_code.return_code) if self.exit_code else None,
            exit_signal=whole(signal.id) if signal else None,
            array_job_id=whole(self.array_job_id) or None,
            het_job_id=whole(self.het_job_id) or None,
            submit_time=moment(self.submit_time),
            start_time=moment(self.start_time),
            # For a job that has not ended Slurm gives the time of its limit here.
            end_time=moment(self.end_time) if states & ENDED_STATES else None,
            extra=self.extra or "",
            comment=self.comment or "",
        )


class ReservationRecord(msgspec.Struct):
    name: str
    node_list: str = ""
    users: str = ""
    flags: list[str] = []
    start_time: Numeric = None
    end_time: Numeric = None

    def view(self) -> SlurmReservation:
        return SlurmReservation(
            name=self.name,
            nodes=expand(self.node_list),
            users=tuple(user for user in self.users.split(",") if user),
            flags=frozenset(flag.upper() for flag in self.flags),
            start_time=moment(self.start_time),
            end_time=moment(self.end_time),
        )


class PingRecord(msgspec.Struct):
    hostname: str = ""
    responding: bool | None = None
    pinged: str = ""

    @property
    def up(self) -> bool:
        return self.pinged == "UP" if self.responding is None else self.responding


class Release(msgspec.Struct):
    release: str = ""


class Meta(msgspec.Struct):
    slurm: Release | None = None


class Answer(msgspec.Struct):
    """Every answer of slurmrestd, whatever was asked."""

    errors: list[Problem] = []
    warnings: list[Problem] = []
    nodes: list[NodeRecord] = []
    jobs: list[JobRecord] = []
    pings: list[PingRecord] = []
    reservations: list[ReservationRecord] = []
    meta: Meta | None = None

    def ping(self) -> Ping:
        version = self.meta.slurm.release if self.meta and self.meta.slurm else ""
        hosts = tuple(ping.hostname for ping in self.pings)
        return Ping(responding=any(ping.up for ping in self.pings), version=version, hosts=hosts)


class WriteAnswer(msgspec.Struct):
    """An answer to a write: only whether it worked is read, and the number of a job that was submitted."""

    errors: list[Problem] = []
    warnings: list[Problem] = []
    results: Any = None
    job_id: int | None = None


DECODER = msgspec.json.Decoder(Answer)
WRITE_DECODER = msgspec.json.Decoder(WriteAnswer)
