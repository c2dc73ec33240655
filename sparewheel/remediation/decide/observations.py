"""What the decisions look at: small typed snapshots, taken by the stages. ``Unknown`` is never read as more."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta

from sparewheel.api.faults import Fault
from sparewheel.api.names import SLURMD_APP_NAME
from sparewheel.api.node_health import NodeAction


@dataclass(frozen=True, slots=True)
class Unknown:
    """A look-up that failed: nothing is known about its object."""

    error: str


@dataclass(frozen=True, slots=True)
class Gone:
    """An answering server said that the object does not exist."""


@dataclass(frozen=True, slots=True)
class ConditionView:
    """A Node condition that neither the kubelet nor our agent wrote. ``since``: its ``lastTransitionTime``."""

    type: str
    status: str
    since: datetime
    reason: str = ""
    message: str = ""


@dataclass(frozen=True, slots=True)
class NodeView:
    name: str
    uid: str
    ready: bool | None = True
    """False or None (Unknown): the kubelet is not known to be alive."""
    unschedulable: bool = False
    taints: frozenset[str] = frozenset()
    labels: Mapping[str, str] = field(default_factory=dict[str, str])
    annotations: Mapping[str, str] = field(default_factory=dict[str, str])
    boot_id: str = ""
    provider_id: str = ""
    conditions: tuple[ConditionView, ...] = ()
    gpus_offered: int | None = None
    """Allocatable GPUs; None where what was read doesn't say."""


@dataclass(frozen=True, slots=True)
class PodView:
    name: str
    namespace: str
    uid: str
    node_name: str = ""
    app_name: str = ""
    hostname: str = ""
    """Slurm node name of a worker pod (Slinky's ``pod-hostname`` label)."""
    veto: bool = False
    veto_note: str = ""
    """Its veto annotation: until when, and why."""
    daemon: bool = False
    mirror: bool = False
    finished: bool = False
    ready: bool = False
    deletion_due: datetime | None = None
    """``deletionTimestamp``: when its grace is over; None while nobody asked for its deletion."""

    @property
    def worker(self) -> bool:
        return self.app_name == SLURMD_APP_NAME

    @property
    def deleting(self) -> bool:
        return self.deletion_due is not None

    def overdue(self, now: datetime, slack_seconds: float) -> bool:
        """Should have gone by now and is still there."""
        return self.deletion_due is not None and now > self.deletion_due + timedelta(seconds=slack_seconds)


@dataclass(frozen=True, slots=True)
class SlurmNodeView:
    name: str
    states: frozenset[str] = frozenset()
    reason: str = ""
    slurmd_start_time: datetime | None = None
    reason_changed_at: datetime | None = None

    @property
    def busy(self) -> bool:
        return bool(self.states & {"ALLOCATED", "MIXED", "COMPLETING"})

    @property
    def registered(self) -> bool:
        """A slurmd answered with a description that slurmctld accepts."""
        return not self.states & {"NOT_RESPONDING", "INVALID_REG", "INVALID", "UNKNOWN", "FUTURE", "POWERED_DOWN"}


@dataclass(frozen=True, slots=True)
class JobView:
    job_id: int
    states: frozenset[str] = frozenset()
    user: str = ""
    name: str = ""
    partition: str = ""
    nodes: frozenset[str] = frozenset()
    hosts: tuple[str, ...] = ()
    """Where its Slurm nodes run, by Kubernetes' names: a replaced node keeps its name in Slurm."""
    restart_count: int = 0
    batch: bool = True
    requeue: bool = True
    expedited: bool = False
    state_reason: str = ""
    priority: int | None = None
    """None where it is not told."""
    exit_code: int | None = None
    exit_signal: int | None = None
    array: bool = False
    het_job_id: int | None = None
    """Of a part of a heterogeneous job: the job's, which is its first part's."""
    submit_time: datetime | None = None
    """Of a job that was requeued: when that was."""
    start_time: datetime | None = None
    end_time: datetime | None = None
    extra: str = ""
    comment: str = ""

    @property
    def running(self) -> bool:
        """Holds nodes: running, or its processes are being ended."""
        return bool(self.states & {"RUNNING", "COMPLETING", "SUSPENDED", "CONFIGURING", "STAGE_OUT", "SIGNALING"})

    @property
    def pending(self) -> bool:
        held = self.states & HELD_STATES and "CANCELLED" not in self.states  # a hold's flag says nothing after that
        return "PENDING" in self.states or bool(held)

    @property
    def held(self) -> bool:
        """Held is what has no priority: state and reason stay as they were when a hold is released, until it starts."""
        told = self.pending and self.state_reason.lower() in HELD_REASONS
        return self.held_by_requeue or (told and not self.priority)

    @property
    def held_by_requeue(self) -> bool:
        """Requeued and held in one: what Slurm does with an expedited job that ended non-zero by itself."""
        return bool(self.states & HELD_STATES) and not self.priority

    @property
    def ended_badly(self) -> bool:
        """Its last attempt is known to have ended non-zero or by a signal."""
        return bool(self.exit_code) or bool(self.exit_signal)

    @property
    def ended(self) -> bool:
        return bool(self.states & END_STATES) and not self.pending and "COMPLETING" not in self.states


END_STATES = frozenset(
    {"COMPLETED", "FAILED", "CANCELLED", "TIMEOUT", "NODE_FAIL", "PREEMPTED", "BOOT_FAIL", "DEADLINE", "OUT_OF_MEMORY"}
)
HELD_STATES = frozenset({"REQUEUE_HOLD", "SPECIAL_EXIT"})
HELD_REASONS = frozenset(
    {
        "jobhelduser",
        "jobheldadmin",
        "job_held_user",
        "job_held_admin",
        "held_user",
        "held_admin",
        "job_requeued_in_held_state",
        "jobholdmaxrequeue",
    }
)


@dataclass(frozen=True, slots=True)
class HealthView:
    """The agent's report, and when it was heard by this controller's own clock."""

    boot_id: str = ""
    heard_seconds_ago: float = 0.0
    """Since the report last changed; no comparison with the node's clock."""
    kubelet_silent_seconds: float | None = None
    """Since its Lease last changed; None: nobody had to ask."""
    heard_since_fence: bool = False
    """And since the node's helper did what it was last asked for."""
    jobs_alive: frozenset[int] | None = None
    """None: the agent could not look."""
    faults: tuple[Fault, ...] = ()
    """And what other programs' conditions of the Node say now."""
    gpus_expected: int = 0
    gpus_seen: int | None = None
    """None: the agent could not count them."""
    action: NodeAction | None = None
    """The last word of the node's helper."""


@dataclass(frozen=True, slots=True)
class Observations:
    """All that one decision about the node track sees. ``slurm_node`` None: no Slurm node belongs to the incident."""

    node: NodeView | Gone | Unknown
    pods: tuple[PodView, ...] | Unknown = ()
    """Pods on the struck node."""
    successors: tuple[PodView, ...] | Unknown = ()
    """Worker pods of the same Slurm node name on other nodes."""
    slurm_node: SlurmNodeView | Gone | Unknown | None = None
    health: HealthView | Unknown | None = None
    fenced_seconds_ago: float | None = None
    """Since this controller saw the node fenced, by its monotonic clock."""
