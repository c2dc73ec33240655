"""RemediationPolicy: one per cluster, named ``default``: overrides, routes, budgets and the state of the breaker."""

from __future__ import annotations

from enum import StrEnum
from typing import ClassVar

from pydantic import Field

from sparewheel.api.base import ApiModel, ApiObject, Time
from sparewheel.api.fault_policy import FaultPolicy
from sparewheel.api.ladder import LadderRule
from sparewheel.api.limits import ReplacementBudget
from sparewheel.api.node_conditions import NodeConditionRule
from sparewheel.api.routes import Person, Route

MAX_ROUTES = 64


class LemonRule(ApiModel):
    """A host with this many incidents in this time is a lemon: quarantined, and no spare until a person clears it."""

    incidents: int = Field(default=3, ge=2)
    window_seconds: int = Field(default=7 * 86400, ge=60)


class VetoEscalation(StrEnum):
    """What becomes of a veto that lasts too long."""

    PAGE = "page"
    """It holds, and people are told once more, as critical."""
    PROCEED = "proceed"
    """The node is drained and replaced all the same. A failed look-up and a paused pool never give way."""


class VetoRule(ApiModel):
    max_seconds: int = Field(default=4 * 3600, ge=1)
    """A veto that lasts longer than this in one incident is escalated."""
    escalate: VetoEscalation = VetoEscalation.PAGE


class RemediationPolicySpec(ApiModel):
    dry_run: bool = False
    fault_policies: list[FaultPolicy] = Field(default_factory=list[FaultPolicy])
    """What is done about a fault; each rule wins over the catalogue, a pool's own over it."""
    node_conditions: list[NodeConditionRule] = Field(default_factory=list[NodeConditionRule])
    """Faults that other programs tell by a Node condition; the first rule that fits one counts."""
    routes: list[Route] = Field(default_factory=list[Route], max_length=MAX_ROUTES)
    people: dict[str, Person] = Field(default_factory=dict[str, Person])
    """By Slurm user: where the owner of a job is reached."""
    max_fenced_nodes: int = Field(default=10, ge=1)
    """The breaker: over this many nodes fenced in ``fenced_window_seconds``, the rest is only drained and told."""
    max_fenced_percent: int | None = Field(default=None, ge=1, le=100)
    """The same in percent of all pools' GPU nodes that take work, rounded up; the stricter limit holds."""
    fenced_window_seconds: int = Field(default=300, ge=1)
    budget: ReplacementBudget = Field(default_factory=ReplacementBudget)
    """Limits on replacing over all pools."""
    max_attempts: int = Field(default=3, ge=1)
    """The same fault right after each of so many repairs: fenced, left so, and a person is called."""
    attempt_window_seconds: int = Field(default=3600, ge=1)
    """How soon after a repair a fault counts as right after it."""
    crashed_job_window_seconds: float = Field(default=30.0, ge=0)
    """A job that ended non-zero on the node from this long before the fault on is taken for its victim."""
    lemon: LemonRule = Field(default_factory=LemonRule)
    veto: VetoRule = Field(default_factory=VetoRule)
    node_helpers: bool = True
    """The nodes have a helper that resets and reboots; without one only what a capacity backend can do is done."""
    ladder: LadderRule = Field(default_factory=LadderRule)
    """What is tried on a node before it is replaced."""


class RouteTest(ApiModel):
    """How a test message went over one route."""

    route: str
    kind: str = ""
    delivered: bool = False
    error: str = ""


class NotifyTest(ApiModel):
    """The answer to a request for test messages."""

    request: str = ""
    """Value of the annotation that is answered here."""
    finished_at: Time | None = None
    results: list[RouteTest] = Field(default_factory=list[RouteTest])


class Backlog(StrEnum):
    """What becomes, once a person closes the breaker, of the nodes that were only drained meanwhile."""

    NONE = ""
    RESUME = "resume"
    """They are fenced now, within the limits."""
    SKIP = "skip"
    """They stay as they are: replaced when their jobs have ended."""


class RemediationPolicyStatus(ApiModel):
    """The breaker. The controller opens it; only a person closes it."""

    breaker_open: bool = False
    breaker_since: Time | None = None
    tripped_by: str = ""
    """Name of the Remediation that was one too many."""
    message: str = ""
    notify_test: NotifyTest = Field(default_factory=NotifyTest)
    closed_at: Time | None = None
    """Fences from then on count."""
    closed_by: str = ""
    closed_why: str = ""
    backlog: Backlog = Backlog.NONE


class RemediationPolicy(ApiObject):
    KIND: ClassVar[str] = "RemediationPolicy"
    PLURAL: ClassVar[str] = "remediationpolicies"
    SHORT_NAMES: ClassVar[tuple[str, ...]] = ("rp",)
    COLUMNS: ClassVar[tuple[tuple[str, str, str], ...]] = (
        ("DryRun", "boolean", ".spec.dryRun"),
        ("Breaker", "boolean", ".status.breakerOpen"),
        ("Since", "date", ".status.breakerSince"),
        ("Message", "string", ".status.message"),
    )

    spec: RemediationPolicySpec = Field(default_factory=RemediationPolicySpec)
    status: RemediationPolicyStatus = Field(default_factory=RemediationPolicyStatus)
