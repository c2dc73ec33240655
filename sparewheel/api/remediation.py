"""Remediation: one incident; the journal that a restarted controller resumes from and the record that people read."""

from __future__ import annotations

from enum import StrEnum
from typing import ClassVar

from pydantic import Field

from sparewheel.api.base import ApiModel, ApiObject, Time
from sparewheel.api.faults import Fault
from sparewheel.api.ladder import LadderRecord, RebootBy, Rung


class Trigger(StrEnum):
    FAULT = "fault"
    NODE_LOST = "node_lost"
    NODE_REMOVED = "node_removed"
    """Somebody else deleted the Node object of a host that serves."""
    MANUAL = "manual"


class NodeStage(StrEnum):
    """The node track, in order. ``vetoed`` is a wait and ``mended`` a try: neither is a station of every run."""

    DETECTED = "detected"
    FENCED = "fenced"
    VETOED = "vetoed"
    MENDED = "mended"
    """Healed where it is, by the node's helper; where that does not help, the node is replaced."""
    DRAINED = "drained"
    REPLACED = "replaced"
    CLOSED = "closed"


class JobStage(StrEnum):
    STOPPING = "stopping"
    REQUEUED = "requeued"
    STARTED = "started"
    RESUMED = "resumed"


class Outcome(StrEnum):
    OPEN = "Open"
    HEALED = "Healed"
    DRY_RUN = "DryRun"
    DETECTED_ONLY = "DetectedOnly"
    """The fault's policy says: shown and told, never acted on."""
    CANCELLED = "Cancelled"
    SUPERSEDED = "Superseded"
    FAILED = "Failed"


class FenceKind(StrEnum):
    """What was done to the Slurm node when the node was fenced."""

    UNDECIDED = "undecided"
    DOWN = "down"
    """Slurm node DOWN: every rank gets SIGTERM and the grace, batch jobs are requeued (Slurm 25.11 or newer)."""
    REQUEUE = "requeue"
    """Older Slurm: DRAIN, then each batch job requeued with top priority; survivors may be lost to a rival."""
    DRAIN = "drain"
    """The breaker is open: DRAIN only, running jobs are left alone."""
    NONE = "none"
    """No Slurm node ran there."""
    CORDON = "cordon"
    """The policy says so: cordon and taint, running jobs are left alone."""
    JOBS = "jobs"
    """The policy says so: the jobs that the fault hit are requeued, the node stays in service."""


class StageRecord(ApiModel):
    """One stage of the node track: begun before its first side effect, ended when its effect was seen."""

    name: NodeStage
    started_at: Time
    ended_at: Time | None = None
    attempts: int = Field(default=0, ge=0)
    message: str = ""


class JobRecord(ApiModel):
    """One job that was on the node when it was struck, and how it went on."""

    job_id: int
    user: str = ""
    job_name: str = ""
    partition: str = ""
    batch: bool = True
    expedited: bool = False
    strike: int = 1
    """Which strike of the incident ended it, and the times are of: the first hits the node, the next a spare in its
    place that is given up."""
    attempt_before: int = 0
    attempt_after: int | None = None
    hosts_before: list[str] = Field(default_factory=list[str])
    hosts_after: list[str] = Field(default_factory=list[str])
    stopping_at: Time | None = None
    requeued_at: Time | None = None
    started_at: Time | None = None
    resumed_at: Time | None = None
    resumed_from_step: int | None = None
    first_step: int | None = None
    closed: bool = False
    """True when nothing more will be written about this job."""
    not_requeued_reason: str = ""
    """Why the job does not come back by itself; empty when it does. Shown to its user as it stands."""
    crashed_by_itself: bool = False
    """The job ended between the fault and the fence, so Slurm did not requeue it and the controller had to."""
    ended_with: str = ""
    """How it had ended (``exit code 3``), where it ended by itself before anybody listed the jobs: the fault may have
    been the cause, and is taken for it."""
    requeue_asked_at: Time | None = None
    """When the controller asked Slurm to requeue the job, or to release the hold of one that Slurm requeued held."""
    message: str = ""
    """The sentence that the job's comment carries: what ended the attempt, whose fault, and how it goes on."""


class Delivery(ApiModel):
    """One message in the outbox. ``key`` is the idempotency key that receivers see."""

    key: str
    route: str
    event: str
    recipient: str = ""
    """User whom it is for; empty: the platform."""
    note: str = ""
    """What is said beside it, such as why the platform hears a message that is for an owner."""
    created_at: Time
    due_at: Time
    decided_at: Time | None = None
    """When it was decided, before the first try, that this message goes out and carries ``folds``."""
    folds: list[str] = Field(default_factory=list[str])
    """Keys of messages, of any incident, that this one tells as well."""
    folded_into: str = ""
    """Key of the message that told this one."""
    addressed_at: Time | None = None
    """For owners: when a message to each of them took this one's place."""
    attempts: int = Field(default=0, ge=0)
    delivered_at: Time | None = None
    given_up_at: Time | None = None
    """When it was clear that nobody will accept it: refused for good, or not accepted for a day."""
    last_error: str = ""


class Owned(ApiModel):
    """What this incident changed outside, so that it undoes nothing of others."""

    cordon: bool = False
    fault_taint: bool = False
    slurm_down: list[str] = Field(default_factory=list[str])
    """Slurm node names that this incident set DOWN (or DRAIN) and has not yet brought back."""
    slurm_struck_at: Time | None = None
    """When the Slurm node was struck; the grace counts from here."""
    slurmd_started_before: Time | None = None
    """slurmd's start time as Slurm knew it before the strike: another value is another instance."""
    held_nodes: list[str] = Field(default_factory=list[str])
    """Slurm nodes that the struck jobs had beside the struck one: kept from other work until they can start again."""
    foreign_reason: str = ""
    """Somebody else's reason on the Slurm node, before the strike or after it; it is left for them to bring back."""


class SeenJob(ApiModel):
    """A job seen alive on the node, or on the spare, before anybody listed the jobs there."""

    job_id: int
    slurm_nodes: list[str] = Field(default_factory=list[str])
    """All Slurm nodes it ran on, where known."""


class ReplacementRecord(ApiModel):
    bad_host: str | None = None
    spare_host: str | None = None
    spare_node: str | None = None
    choice: str = ""
    """Why this spare and not another."""
    spare_slurm_node: str | None = None
    """The Slurm node that took the struck one's place, where it is another (warm spares)."""
    claimed_at: Time | None = None
    lifted_at: Time | None = None
    """When the held nodes, and a warm spare, were given free for jobs to start on."""
    jobs_seen: list[SeenJob] = Field(default_factory=list[SeenJob])
    """Jobs seen alive on the spare since then, until it serves: one that ends with it leaves no other trace."""
    struck_again_at: Time | None = None
    """When the jobs were struck once more, since the spare that had joined them was given up."""
    proven_off_at: Time | None = None
    join_asked_at: Time | None = None
    spare_was_off: bool = False
    """The spare had to be switched on first, so it may be silent for as long as it boots."""
    spare_silent_since: Time | None = None
    """When the spare that is to join first did not answer or was refused; empty while it does."""
    spare_refused: bool = False
    """The backend refused to bring it in, which is no fault of the spare's."""
    joined_at: Time | None = None
    checked_at: Time | None = None
    admitted_at: Time | None = None
    test_asked_at: Time | None = None
    """When the Slurm test job on the spare was first asked for, where the pool has one."""
    test_job_id: int | None = None
    tested_at: Time | None = None
    """When it had passed."""
    test_failure: str = ""
    """Why the spare is given up after its test; empty while nothing is known against it."""
    test_ill: bool = False
    """The test failed for the spare's own fault: it is quarantined."""
    worker_deleted_at: Time | None = None
    """When the bad node's worker pod was told to go; from then on the incident can no longer be called off."""
    slurm_restored_at: Time | None = None
    quarantined_at: Time | None = None
    refused_hosts: list[str] = Field(default_factory=list[str])
    """Spares that failed their checks in this incident and are not tried again."""
    message: str = ""
    """What the search for a spare waits for; empty while it moves."""


class RemediationSpec(ApiModel):
    """What happened, to which incarnation of which node. Immutable."""

    node: str
    node_uid: str
    provider_id: str = ""
    boot_id: str = ""
    pool: str
    slurm_node: str | None = None
    """Name of the worker pod's Slurm node at detection; None when none ran there."""
    worker_pod_uid: str | None = None
    trigger: Trigger = Trigger.FAULT
    fault: Fault
    requested_by: str = ""
    grace_seconds: int = 120
    dry_run: bool = False
    detect_only: bool = False
    """Set together with ``dry_run``: nothing will ever be done about this fault."""
    policy: str = ""
    """Which rule chose the fault's action, in words."""
    hold: str = ""
    """Why nothing is done beyond the fence until a person says so; empty: healed as usual."""
    ladder: list[Rung] = Field(default_factory=list[Rung])
    """What is tried on the node before it is replaced, as the policy was at detection."""
    reboot_by: list[RebootBy] = Field(default_factory=lambda: [RebootBy.HELPER])
    """Who is asked for a reboot; the next one where the one before can't be asked."""
    ladder_off: str = ""
    """Why it is replaced at once although the policy has a ladder."""
    jobs_seen: list[SeenJob] = Field(default_factory=list[SeenJob])
    """A job that crashed with the fault may have left the node before anybody could list it."""


class RemediationStatus(ApiModel):
    stage: NodeStage = NodeStage.DETECTED
    outcome: Outcome = Outcome.OPEN
    cancelled_by: str = ""
    """Who called the incident off; empty where nobody did. Set while it is open: it ends so, whatever comes."""
    cancelled_why: str = ""
    message: str = ""
    waiting_for: str = ""
    """What the incident waits for, in words; empty while it moves."""
    next_look_at: Time | None = None
    veto_escalated_at: Time | None = None
    """When people were told that a veto lasts longer than the policy allows."""
    stages: list[StageRecord] = Field(default_factory=list[StageRecord])
    jobs: list[JobRecord] = Field(default_factory=list[JobRecord])
    fence: FenceKind = FenceKind.UNDECIDED
    fence_decided_at: Time | None = None
    drained_under: Time | None = None
    """Since when the breaker was open under which the node was only drained: tells that opening from others."""
    jobs_listed_at: Time | None = None
    """When the jobs on the node were read from Slurm; before that ``jobs`` says nothing."""
    ladder: LadderRecord = Field(default_factory=LadderRecord)
    recovered_at: Time | None = None
    """A cordoned node is well again: from then on it is given back, whoever takes its marks off."""
    recovered_why: str = ""
    replacement: ReplacementRecord = Field(default_factory=ReplacementRecord)
    owned: Owned = Field(default_factory=Owned)
    outbox: list[Delivery] = Field(default_factory=list[Delivery])
    more_faults: list[Fault] = Field(default_factory=list[Fault])
    """Later faults of the same node, folded into this incident."""


class Remediation(ApiObject):
    KIND: ClassVar[str] = "Remediation"
    PLURAL: ClassVar[str] = "remediations"
    SHORT_NAMES: ClassVar[tuple[str, ...]] = ("rem",)
    COLUMNS: ClassVar[tuple[tuple[str, str, str], ...]] = (
        ("Node", "string", ".spec.node"),
        ("Fault", "string", ".spec.fault.code"),
        ("Stage", "string", ".status.stage"),
        ("Outcome", "string", ".status.outcome"),
        ("Waiting", "string", ".status.waitingFor"),
        ("Age", "date", ".metadata.creationTimestamp"),
    )

    spec: RemediationSpec
    status: RemediationStatus = Field(default_factory=RemediationStatus)
