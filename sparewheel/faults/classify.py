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
RANKS: Final = {action: rank for rank, action in enumerate(Action)}
"""Actions by how much they cost, mildest 0."""


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


def fault_of(
    finding: Finding, rule: Rule, *, now: datetime, gpu_index: int | None = None, drill: bool = False
) -> OpenFault:
    """The fault that a finding is under a rule. ``now``: the fault's own time."""
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
            )
            return [*faults[:index], merged, *faults[index + 1 :]]
    folded = [*faults, new]
    if len(folded) > limit:
        folded.remove(min(folded, key=lambda fault: (_rank(fault), fault.last_seen)))
    return folded


def _rank(fault: OpenFault) -> int:
    return RANKS[fault.action]
