"""NodeHealth: one per node, cluster-scoped, same name as the Node, written by the agent of that node alone."""

from __future__ import annotations

from typing import ClassVar

from pydantic import ConfigDict, Field

from sparewheel.api.base import ApiModel, ApiObject, Time
from sparewheel.api.enums import NodeActionKind, NodeActionState
from sparewheel.api.faults import Fault


class DeviceCount(ApiModel):
    model_config = ConfigDict(frozen=True)

    expected: int = Field(default=0, ge=0)
    seen: int | None = Field(default=None, ge=0)
    """None: could not be evaluated. Never read as healthy."""


class JobProcesses(ApiModel):
    """Processes of one Slurm job alive on the node."""

    job_id: int
    processes: int = Field(ge=0)
    """0: it had some a moment ago."""


class NodeAction(ApiModel):
    """The last thing that the node's helper was asked to do, by the request's id."""

    id: str
    kind: NodeActionKind | None = None
    """None: the request could not be read."""
    device: str = ""
    """PCI address of the GPU, for a reset."""
    state: NodeActionState
    message: str = ""
    time: Time
    """When it came into this state."""
    boot_id: str = ""
    """The boot in which it was begun: a reboot succeeded once another one reports."""


class NodeHealthSpec(ApiModel):
    """Empty: a node's health is not asked for, it is reported."""


class NodeHealthStatus(ApiModel):
    boot_id: str = ""
    agent_version: str = ""
    heartbeat_time: Time | None = None
    heartbeat_interval_seconds: float = 5.0
    gpus: DeviceCount = Field(default_factory=DeviceCount)
    hcas: DeviceCount = Field(default_factory=DeviceCount)
    faults: list[Fault] = Field(default_factory=list[Fault])
    jobs: list[JobProcesses] = Field(default_factory=list[JobProcesses])
    jobs_observed_time: Time | None = None
    """When ``jobs`` was read; absent means the look-up failed and ``jobs`` says nothing."""
    malformed_lines: int = Field(default=0, ge=0)
    kernel_log_sequence: int | None = None
    """Sequence number of the last kernel log record read in this boot; a restarted agent goes on from there."""
    message: str = ""
    action: NodeAction | None = None
    """Written by the node's helper, where the stack allows one."""


class NodeHealth(ApiObject):
    KIND: ClassVar[str] = "NodeHealth"
    PLURAL: ClassVar[str] = "nodehealths"
    SHORT_NAMES: ClassVar[tuple[str, ...]] = ("nh",)
    NAMESPACED: ClassVar[bool] = False
    COLUMNS: ClassVar[tuple[tuple[str, str, str], ...]] = (
        ("GPUs", "integer", ".status.gpus.seen"),
        ("Expected", "integer", ".status.gpus.expected"),
        ("Fault", "string", ".status.faults[0].code"),
        ("Heartbeat", "date", ".status.heartbeatTime"),
    )

    spec: NodeHealthSpec = Field(default_factory=NodeHealthSpec)
    status: NodeHealthStatus = Field(default_factory=NodeHealthStatus)
