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
    """The record's rows that have an end, as `sparewheel timeline` counts them."""
    return [
        Bar(row.track, row.stage, row.start_seconds, row.end_seconds)
        for row in rows(facts.record)
        if row.end_seconds is not None
    ]


def resumed_seconds(facts: Facts) -> float | None:
    """Fault to first new step."""
    job = facts.job
    if job is None or job.resumed_at is None:
        return None
    return (job.resumed_at - facts.fault_at).total_seconds()


def platform_seconds(facts: Facts) -> float | None:
    """Fault to first new step, beyond the job's own save and its load, which is that of its first attempt."""
    whole = resumed_seconds(facts)
    return None if whole is None else whole - facts.load_seconds - facts.save_seconds


def handed_over_seconds(facts: Facts) -> float | None:
    """Fault to the start of the new attempt's last launcher, less the save: all that passes before the job's own code.

    Unlike ``platform_seconds`` it holds nothing of how long the same load takes at two different times.
    """
    after = facts.job.attempt_after if facts.job is not None else None
    launched = None if after is None else facts.launched_at.get(after)
    return None if launched is None else (launched - facts.fault_at).total_seconds() - facts.save_seconds


def document(facts: Facts, checks: list[Check]) -> dict[str, Any]:
    """Stages (name, track, start and end in seconds after the fault) and everything that the checks looked at."""
    job = facts.job
    resumed = resumed_seconds(facts)
    after = job.attempt_after if job else None
    first_new = facts.first_step_of(after) if after is not None else None
    return {
        "stages": [
            {"name": bar.stage, "track": bar.track, "start": bar.start_seconds, "end": bar.end_seconds}
            for bar in stage_bars(facts)
        ],
        "fault_at": facts.fault_at.isoformat(),
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
        "handed_over_seconds": handed_over_seconds(facts),
        "resumed_seconds": resumed,
        "resumed_less_load_seconds": None if resumed is None else round(resumed - facts.load_seconds, 3),
        "checks": [asdict(check) for check in checks],
    }


def step_times(facts: Facts) -> list[float]:
    """Seconds after the fault at which the job finished a step."""
    return [(datetime.fromisoformat(step.time) - facts.fault_at).total_seconds() for step in facts.steps]
