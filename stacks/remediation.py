"""Healing: what is watched on the hosts, what is done about a fault, who is told."""

from __future__ import annotations

from typing import Literal

from pydantic import Field, field_validator

from sparewheel.api.ladder import LadderRule
from sparewheel.api.remediation_policy import MAX_ROUTES, VetoEscalation
from stacks.base import AbsoluteFile, Area
from stacks.budget import Budget
from stacks.conditions import NodeCondition
from stacks.drill import Drill
from stacks.faults import FaultRule, FaultRules
from stacks.ladder import Ladder
from stacks.routes import RouteConfig, wrong_together


class Agent(Area):
    """What the agent watches on each GPU host."""

    kernel_log: AbsoluteFile = Field(default="/dev/kmsg", description="kernel log, as the host sees it")
    heartbeat_interval_seconds: float = Field(default=5.0, ge=1, le=60)
    gpu_source: Literal["nvml", "device-files"] = Field(default="nvml", description="how GPUs are counted")
    node_actions: bool = Field(
        default=False, description="a privileged helper on each GPU host may reset a GPU or reboot, when asked to"
    )
    allow_drills: bool = Field(default=False, description="faults injected on purpose, and marked so, are acted on")


class Lemons(Area):
    """Hosts that strike again and again are kept out until a person clears them."""

    incidents: int = Field(default=3, ge=2, description="a host with this many incidents is a lemon")
    window_seconds: int = Field(default=7 * 86400, ge=60, description="within this time")


class Veto(Area):
    """What becomes of a veto that lasts."""

    max_seconds: int = Field(default=4 * 3600, ge=1, description="a veto that lasts longer is escalated")
    escalate: VetoEscalation = VetoEscalation.PAGE


class RemediationConfig(Area):
    """Off-switches first: ``dry_run`` writes records and does nothing."""

    dry_run: bool = False
    replicas: int = Field(default=2, ge=1, le=5, description="controllers; one leads, the others stand by")
    fault_overrides: FaultRules = Field(
        default_factory=dict[str, FaultRule], description="by fault code, such as 'XID 63: replace'"
    )
    node_conditions: list[NodeCondition] = Field(
        default_factory=list[NodeCondition], description="conditions of other programs that tell a fault"
    )
    routes: list[RouteConfig] = Field(default_factory=list[RouteConfig], max_length=MAX_ROUTES)
    max_fenced_nodes: int = Field(default=10, ge=1, description="after so many at once the rest is only drained")
    max_fenced_percent: int | None = Field(
        default=50, ge=1, le=100, description="the same in percent of all GPU nodes that take work, rounded up"
    )
    fenced_window_seconds: int = Field(default=300, ge=1)
    budget: Budget = Field(default_factory=Budget, description="limits on replacing over all pools")
    max_attempts: int = Field(
        default=3, ge=1, description="repairs that the same fault may follow, before a person is called"
    )
    attempt_window_seconds: int = Field(default=3600, ge=1, description="how soon after a repair a fault follows it")
    crashed_job_window_seconds: float = Field(default=30.0, ge=0)
    lemon: Lemons = Lemons()
    veto: Veto = Veto()
    ladder: Ladder | None = Field(
        default=None, description="what is tried on a node before it is replaced; with agent.node_actions only"
    )
    agent: Agent = Agent()
    drill: Drill | None = Field(
        default=None, description="a fault on purpose on an idle node, on schedule; with agent.allow_drills only"
    )
    keep_records: bool = Field(
        default=True, description="keep our CRDs, and so every record, when the stack is destroyed"
    )

    def ladder_rule(self) -> LadderRule:
        """Without helpers on the hosts only a ladder that the stack writes down is climbed, by capacity backends."""
        if self.ladder is None:
            return Ladder().rule() if self.agent.node_actions else LadderRule()
        return self.ladder.rule()

    @field_validator("routes")
    @classmethod
    def _fit_together(cls, routes: list[RouteConfig]) -> list[RouteConfig]:
        msg = wrong_together([*routes])
        if msg:
            raise ValueError(msg)
        return routes
