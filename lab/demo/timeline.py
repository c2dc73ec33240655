"""``timeline.json``: what scripts read of a run. Pure."""

from __future__ import annotations

from dataclasses import asdict
from datetime import datetime
from typing import Any

from lab.demo.checks import Check
from lab.demo.facts import Facts
from lab.demo.picture import Bar
from sparewheel.cli.timeline import rows


def stage_bars(facts: Facts) -> list[Bar]:
    """The record's rows, counted from the injection instead of from the fault's own time."""
    shift = (facts.record.spec.fault.first_seen - facts.injected_at).total_seconds()
    return [
        Bar(row.track, row.stage, round(row.start_seconds + shift, 3), round(row.end_seconds + shift, 3))
        for row in rows(facts.record)
        if row.end_seconds is not None
    ]


def resumed_seconds(facts: Facts) -> float | None:
    """Injection to first new step."""
    job = facts.job
    if job is None or job.resumed_at is None:
        return None
    return (job.resumed_at - facts.injected_at).total_seconds()


def platform_seconds(facts: Facts) -> float | None:
    """The fault's own time, as the kernel's log has it, to the first new step, beyond the job's own save and load."""
    job = facts.job
    if job is None or job.resumed_at is None:
        return None
    whole = (job.resumed_at - facts.record.spec.fault.first_seen).total_seconds()
    return whole - facts.load_seconds - facts.save_seconds


def document(facts: Facts, checks: list[Check]) -> dict[str, Any]:
    """Stages (name, track, start and end in seconds after the injection) and everything that the checks looked at."""
    job = facts.job
    resumed = resumed_seconds(facts)
    after = job.attempt_after if job else None
    first_new = facts.first_step_of(after) if after is not None else None
    return {
        "stages": [
            {"name": bar.stage, "track": bar.track, "start": bar.start_seconds, "end": bar.end_seconds}
            for bar in stage_bars(facts)
        ],
        "injected_at": facts.injected_at.isoformat(),
        "remediation": facts.record.metadata.name,
        "job_id": facts.struck.job_id,
        "attempts": facts.struck.attempts,
        "last_step_before": facts.last_step_before(after) if after is not None else None,
        "first_step_after": first_new.step if first_new else None,
        "checkpoint": job.resumed_from_step if job else None,
        "hosts_before": job.hosts_before if job else [],
        "hosts_after": job.hosts_after if job else [],
        "bad_node": facts.bad_node,
        "load_seconds": round(facts.load_seconds, 3),
        "save_seconds": round(facts.save_seconds, 3),
        "platform_seconds": platform_seconds(facts),
        "resumed_seconds": resumed,
        "resumed_less_load_seconds": None if resumed is None else round(resumed - facts.load_seconds, 3),
        "checks": [asdict(check) for check in checks],
    }


def step_times(facts: Facts) -> list[float]:
    """Seconds after the injection at which the job finished a step."""
    return [(datetime.fromisoformat(step.time) - facts.injected_at).total_seconds() for step in facts.steps]
