"""From a finding to an open fault, and from many faults to few: one row a code and device, with a count. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Final

from sparewheel.api.enums import Action, FaultSource, Severity
from sparewheel.faults.catalogue import Rule
from sparewheel.faults.findings import Finding

MAX_MESSAGE_CHARACTERS = 300
MAX_SIGHTINGS = 16
SAME_SIGHTING_SECONDS = 1.0
RANKS: Final = {action: rank for rank, action in enumerate(Action)}
"""Actions by how much they cost, mildest 0."""


@dataclass(frozen=True, slots=True)
class Sighting:
    """Field for field what ``sparewheel.api.faults.Sighting`` reads."""

    time: datetime
    job_id: int | None = None
    count: int = 1


@dataclass(frozen=True, slots=True)
class OpenFault:
    """One open fault of one device. Field for field what ``sparewheel.api.faults.Fault`` reads."""

    code: str
    device: str
    action: Action
    severity: Severity
    source: FaultSource
    first_seen: datetime
    last_seen: datetime
    count: int = 1
    message: str = ""
    gpu_index: int | None = None
    drill: bool = False
    recent: tuple[Sighting, ...] = ()


def fault_of(
    finding: Finding,
    rule: Rule,
    *,
    now: datetime,
    gpu_index: int | None = None,
    drill: bool = False,
    job_id: int | None = None,
) -> OpenFault:
    """The fault that a finding is under a rule. ``now``: the fault's own time.

    ``job_id``: the job it hit, where only one can have been.
    """
    meaning = f"{rule.meaning} ({finding.gpu_uuid})" if finding.gpu_uuid else rule.meaning
    return OpenFault(
        code=finding.code,
        device=finding.device,
        gpu_index=gpu_index,
        action=rule.action,
        severity=rule.severity,
        source=FaultSource.KERNEL_LOG,
        first_seen=now,
        last_seen=now,
        message=f"{meaning}: {finding.text}"[:MAX_MESSAGE_CHARACTERS],
        drill=drill,
        recent=(Sighting(now, job_id),),
    )


def fold(faults: Sequence[OpenFault], new: OpenFault, *, limit: int = 64) -> list[OpenFault]:
    """Add a fault to the open ones: a repeat is counted; over ``limit`` the mildest, oldest one makes room."""
    for index, known in enumerate(faults):
        if (known.code, known.device) == (new.code, new.device):
            stronger = new if _rank(new) > _rank(known) else known
            merged = replace(
                stronger,
                first_seen=min(known.first_seen, new.first_seen),
                last_seen=max(known.last_seen, new.last_seen),
                count=known.count + new.count,
                drill=known.drill and new.drill,
                recent=sightings(known.recent, new.recent),
            )
            return [*faults[:index], merged, *faults[index + 1 :]]
    folded = [*faults, new]
    if len(folded) > limit:
        folded.remove(min(folded, key=lambda fault: (_rank(fault), fault.last_seen)))
    return folded


def sightings(known: Sequence[Sighting], new: Sequence[Sighting]) -> tuple[Sighting, ...]:
    """Add to what was seen: what is a second apart under one job is one sighting; too many of one job make room."""
    found = list(known)
    for one in new:
        last = found[-1] if found else None
        close = last is not None and abs((one.time - last.time).total_seconds()) <= SAME_SIGHTING_SECONDS
        if last is not None and close and last.job_id == one.job_id:
            found[-1] = replace(last, count=last.count + one.count)
        else:
            found.append(one)
    while len(found) > MAX_SIGHTINGS:
        _make_room(found)
    return tuple(found)


def _make_room(found: list[Sighting]) -> None:
    """Two neighbours under one job become one, so that a flood under one job doesn't push out an earlier job."""
    for index in range(len(found) - 1):
        if found[index].job_id == found[index + 1].job_id:
            first, second = found[index], found.pop(index + 1)
            found[index] = replace(first, count=first.count + second.count)
            return
    found.pop(0)


def _rank(fault: OpenFault) -> int:
    return RANKS[fault.action]
