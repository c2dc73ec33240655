"""Slurm does not answer: the incident waits, says so, and tells it once when it lasts."""

from __future__ import annotations

from datetime import timedelta

from sparewheel.remediation.decide.events import EVENT_WAITING
from sparewheel.remediation.decide.record import waiting
from sparewheel.remediation.stages.incident import Incident

EVENT_SLURM = f"{EVENT_WAITING}/slurm"
TELL_AFTER_FAILURES = 5


async def say_slurm_waits(incident: Incident, error: Exception, failures: int) -> None:
    text = f"Slurm ({error})"[:500]
    await incident.update(waiting(text, incident.now() + timedelta(seconds=5)))
    if failures >= TELL_AFTER_FAILURES:
        await incident.tell(EVENT_SLURM)
