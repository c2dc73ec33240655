"""What becomes of a job whose host lost its power, as marks in time and as figures. Pure."""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import UTC, datetime

from lab.demo.facts import job_fields

OUT = ("DOWN", "FAIL")
ENDED = frozenset(
    {"BOOT_FAIL", "CANCELLED", "COMPLETED", "DEADLINE", "FAILED", "NODE_FAIL", "OUT_OF_MEMORY", "TIMEOUT"}
)


@dataclass(frozen=True, slots=True)
class Seen:
    """One look at Slurm."""

    state: str
    attempts: int
    started_at: datetime | None
    """Slurm's own time of the newest start, whole seconds; None while the job waits."""
    node_out: bool
    """Slurm has given the struck node up."""


@dataclass(frozen=True, slots=True)
class Marks:
    """Each is the first look that saw it, except Slurm's start and the job's own step, which carry their times."""

    killed_at: datetime
    node_out_at: datetime | None = None
    requeued_at: datetime | None = None
    started_at: datetime | None = None
    first_step_at: datetime | None = None
    ended_at: datetime | None = None
    """Since when the job is seen as ended, and nothing has started it again."""


def seen_in(text: str) -> Seen:
    """``scontrol -o show`` of the job and of the node, a line each, in UTC."""
    fields = [job_fields(line) for line in text.splitlines() if line.strip()]
    nothing: dict[str, str] = {}
    job = next((one for one in fields if "JobState" in one), nothing)
    node = next((one for one in fields if "NodeName" in one and "JobState" not in one), nothing)
    state = job.get("JobState", "")
    return Seen(
        state=state,
        attempts=int(job.get("Restarts", "0")) + 1,
        started_at=_time(job.get("StartTime", "")) if state == "RUNNING" else None,
        node_out=node.get("State", "").startswith(OUT),
    )


def _time(text: str) -> datetime | None:
    try:
        return datetime.fromisoformat(text).replace(tzinfo=UTC)
    except ValueError:
        return None


def marked(marks: Marks, seen: Seen, now: datetime, first_step_at: datetime | None) -> Marks:
    """``first_step_at``: the first step of an attempt after the first, where there is one."""
    again = seen.attempts > 1
    return replace(
        marks,
        node_out_at=marks.node_out_at or (now if seen.node_out else None),
        requeued_at=marks.requeued_at or (now if again else None),
        started_at=marks.started_at or (seen.started_at if again else None),
        first_step_at=marks.first_step_at or first_step_at,
        ended_at=(marks.ended_at or now) if seen.state in ENDED else None,
    )


def figures_of(name: str, marks: Marks) -> dict[str, float]:
    """Seconds from the cut to the first new step, and each part of them that was seen."""
    parts = {
        "node_out": (marks.killed_at, marks.node_out_at),
        "requeue": (marks.node_out_at, marks.requeued_at),
        "wait": (marks.requeued_at, marks.started_at),
        "load": (marks.started_at, marks.first_step_at),
    }
    whole = {f"{name}_first_step_seconds": _seconds(marks)}
    return whole | {
        f"{name}_{part}_seconds": round(max(0.0, (end - begin).total_seconds()), 3)
        for part, (begin, end) in parts.items()
        if begin is not None and end is not None
    }


def ratio(plain: Marks, ours: Marks) -> float:
    return round(_seconds(plain) / _seconds(ours), 2)


def _seconds(marks: Marks) -> float:
    if marks.first_step_at is None:
        raise ValueError("the job took no new step")
    return (marks.first_step_at - marks.killed_at).total_seconds()
