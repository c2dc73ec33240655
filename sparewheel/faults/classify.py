"""From a finding to an open fault, and from many faults to few: one row a code and device, with a count. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime

from sparewheel.api.enums import Action, FaultSource, Severity
from sparewheel.api.names import CODE_GPU_OFF_BUS
from sparewheel.faults.catalogue import apply_override, xid_rule
from sparewheel.faults.lines import Finding

MAX_MESSAGE_CHARACTERS = 300
_RANKS = {action: rank for rank, action in enumerate(Action)}


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
    finding: Finding,
    *,
    now: datetime,
    overrides: Mapping[str, Action],
    gpu_index: int | None = None,
    drill: bool = False,
) -> OpenFault:
    """Classify one finding. A fall off the bus without an XID asks for what XID 79 asks for."""
    code = CODE_GPU_OFF_BUS if finding.xid is None else f"XID {finding.xid}"
    xid = 79 if finding.xid is None else finding.xid
    rule = apply_override(code, xid_rule(xid, fatal=finding.fatal, recovery_code=finding.recovery_code), overrides)
    return OpenFault(
        code=code,
        device=finding.pci,
        gpu_index=gpu_index,
        action=rule.action,
        severity=rule.severity,
        source=FaultSource.KERNEL_LOG,
        first_seen=now,
        last_seen=now,
        message=f"{rule.meaning}: {finding.text}"[:MAX_MESSAGE_CHARACTERS],
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
    return _RANKS[fault.action]
