"""Actions, severities and sources of faults. Without pydantic, so that the agent stays small."""

from __future__ import annotations

from enum import StrEnum


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
