"""What a fault is, wherever it is written: NodeHealth, Remediation, policy."""

from __future__ import annotations

from enum import StrEnum

from pydantic import Field

from sparewheel.api.base import ApiModel, Time


class Action(StrEnum):
    """What a fault asks for, mildest first."""

    IGNORE = "ignore"
    RECORD = "record"
    RESTART_JOB = "restart_job"
    RESET_GPU = "reset_gpu"
    REBOOT = "reboot"
    REPLACE = "replace"


class Severity(StrEnum):
    INFO = "info"
    WARNING = "warning"
    CRITICAL = "critical"


class FaultSource(StrEnum):
    KERNEL_LOG = "kernel_log"
    NVML = "nvml"
    DEVICE_COUNT = "device_count"
    HEARTBEAT = "heartbeat"
    NODE_CONDITION = "node_condition"
    MANUAL = "manual"


class Fault(ApiModel):
    """One open fault of one device; repeats are counted, not listed."""

    code: str
    """``XID 79``, ``SXID 20034``, ``GPU_OFF_BUS``, ``GPU_MISSING``, ``NODE_LOST``, ``MANUAL``."""
    device: str = ""
    """PCI address in the form ``0000:17:00`` (domain 4 digits or more, no function), else empty."""
    gpu_index: int | None = None
    action: Action = Action.RECORD
    severity: Severity = Severity.INFO
    source: FaultSource = FaultSource.KERNEL_LOG
    first_seen: Time
    last_seen: Time
    count: int = Field(default=1, ge=1)
    message: str = ""
    drill: bool = False
    """True when somebody injected it on purpose."""
