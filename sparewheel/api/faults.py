"""What a fault is, wherever it is written: NodeHealth, Remediation, policy."""

from __future__ import annotations

from pydantic import Field

from sparewheel.api.base import ApiModel, Time
from sparewheel.api.enums import Action, FaultSource, Severity

__all__ = ["Action", "Fault", "FaultSource", "Severity", "Sighting"]


class Sighting(ApiModel):
    """One time, or a few within one second, that a fault was seen."""

    time: Time
    job_id: int | None = None
    """The job it hit, where only one can have been; None: not known, and never taken for another job."""
    count: int = Field(default=1, ge=1)


class Fault(ApiModel):
    """One open fault of one device; repeats are counted, not listed."""

    code: str
    """``XID 79``, ``SXID 20034``, ``GPU_OFF_BUS``, ``GPU_MISSING``, ``NODE_LOST``, ``NODE_REMOVED``, ``MANUAL``."""
    device: str = ""
    """PCI address in the form ``0000:17:00`` (domain 4 digits or more, no function), else empty."""
    gpu_index: int | None = None
    action: Action = Action.RECORD
    severity: Severity = Severity.INFO
    source: FaultSource = FaultSource.KERNEL_LOG
    first_seen: Time
    last_seen: Time
    count: int = Field(default=1, ge=1)
    recent: list[Sighting] = Field(default_factory=list[Sighting])
    """When it was last seen, oldest first, for rules on repeats; a few, not all."""
    message: str = ""
    drill: bool = False
    """True when somebody injected it on purpose."""
