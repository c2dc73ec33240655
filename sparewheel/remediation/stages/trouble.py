"""Slurm, the capacity backend or the API server refuses or does not answer: the incident says so, and tells it once."""

from __future__ import annotations

from datetime import timedelta

from sparewheel.capacity.port import CapacityError
from sparewheel.remediation.decide.events import EVENT_WAITING
from sparewheel.remediation.decide.record import waiting
from sparewheel.remediation.stages import replaced
from sparewheel.remediation.stages.incident import Incident
from sparewheel.slurm.port import SlurmError

SHOW_AFTER_FAILURES = 3
"""Of the API server's errors most are over at the next try: somebody wrote in between, or a replica went."""
TELL_AFTER_FAILURES = 5
MAX_CHARACTERS = 500


async def say_waits(incident: Incident, error: Exception, failures: int, *, spare: bool) -> None:
    """``spare``: it is the search for a spare that does not go on. Raises what the journal raises."""
    who, event = _who(error)
    if event == "kubernetes" and failures < SHOW_AFTER_FAILURES:
        return
    text = f"{who} ({error})"[:MAX_CHARACTERS]
    if spare:
        if incident.record.status.replacement.spare_silent_since is None:  # else it says so by itself
            await replaced.say(incident, text)
    else:
        await incident.update(waiting(text, incident.now() + timedelta(seconds=5)))
    if failures >= TELL_AFTER_FAILURES:
        await incident.tell(f"{EVENT_WAITING}/{event}")


def _who(error: Exception) -> tuple[str, str]:
    if isinstance(error, SlurmError):
        return "Slurm", "slurm"
    return (
        ("the capacity backend", "capacity") if isinstance(error, CapacityError) else ("the API server", "kubernetes")
    )
