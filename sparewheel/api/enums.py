"""Actions, severities and sources of faults. Without pydantic, so that the agent stays small."""

from __future__ import annotations

from enum import StrEnum


class Action(StrEnum):
    """What a fault asks for, mildest first: what is done to the node, and only then what is done to its jobs."""

    IGNORE = "ignore"
    RECORD = "record"
    """It stays in the node's report and its Events; no incident."""
    RESTART_JOB = "restart_job"
    """The node's jobs are requeued; the node stays in service."""
    CORDON = "cordon"
    """Cordoned, tainted and told, nothing more, until a person or a recovery; running jobs go on."""
    RESET_GPU = "reset_gpu"
    REBOOT = "reboot"
    REPLACE = "replace"


class Severity(StrEnum):
    INFO = "info"
    WARNING = "warning"
    CRITICAL = "critical"


class NodeActionKind(StrEnum):
    """What a node's helper can do on its own host."""

    RESET_GPU = "reset_gpu"
    REBOOT = "reboot"


class NodeActionState(StrEnum):
    RUNNING = "running"
    """Written down before it is begun; a reboot stays so until the next boot reports."""
    SUCCEEDED = "succeeded"
    FAILED = "failed"
    """It was begun and didn't help, or it is not known how it ended."""
    REFUSED = "refused"
    """Nothing was touched: the GPU is held, the deadline has passed, or the request can't be read."""


class FaultSource(StrEnum):
    KERNEL_LOG = "kernel_log"
    NVML = "nvml"
    DEVICE_COUNT = "device_count"
    INFINIBAND = "infiniband"
    HEARTBEAT = "heartbeat"
    NODE_CONDITION = "node_condition"
    MANUAL = "manual"
