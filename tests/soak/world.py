"""The simulated data centre with what the soak needs beside it: who is really ill, and what was really done."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any

from sparewheel.api.faults import Action
from sparewheel.api.names import LABEL_ROLE, ROLE_ACTIVE
from sparewheel.api.remediation import Remediation
from sparewheel.api.remediation_policy import RemediationPolicySpec
from sparewheel.kube.port import NODE, Json
from sparewheel.remediation.decide.policy import HEALING
from sparewheel.slurm.memory import MemoryJob
from tests.soak.schedule import Shape
from tests.support.clocks import LoopClock
from tests.support.world import World

STEP_SECONDS = 0.25


class JumpingClock(LoopClock):
    """Wall time that somebody sets now and then; the monotonic one goes on."""

    def __init__(self) -> None:
        self.ahead_seconds = 0.0

    def now(self) -> datetime:
        return super().now() + timedelta(seconds=self.ahead_seconds)


@dataclass
class Truth:
    """What happened to each host by the schedule: only these may be acted upon."""

    asked: dict[str, set[Action]] = field(default_factory=dict[str, set[Action]])
    """By host: what its faults ask for, whatever became of them since."""
    lost: set[str] = field(default_factory=set[str])
    unfit: set[str] = field(default_factory=set[str])
    """Spares that fail their checks."""
    ends: dict[int, int] = field(default_factory=dict[int, int])
    """By job: how often an attempt was ended: by itself, by a strike or a requeue, with its worker pod."""
    wrongs: list[str] = field(default_factory=list[str])
    """What must not have happened."""

    def ask(self, host: str, action: Action) -> None:
        self.asked.setdefault(host, set()).add(action)

    def ill(self, host: str) -> bool:
        """May it be taken out of service?"""
        return bool(self.asked.get(host, set()) & HEALING)

    def faulty(self, host: str) -> bool:
        """May it be cordoned, or its jobs requeued?"""
        return host in self.asked

    def ended(self, job: int) -> None:
        self.ends[job] = self.ends.get(job, 0) + 1

    def wrong(self, text: str) -> None:
        self.wrongs.append(f"at {asyncio.get_running_loop().time():.2f} s: {text}")


@dataclass
class SoakWorld(World):
    shape: Shape = field(default_factory=Shape)
    truth: Truth = field(default_factory=Truth)
    _parsed: dict[str, tuple[Json, Remediation]] = field(default_factory=dict[str, tuple[Json, Remediation]])
    """Each record as it was stored last, and what it says."""

    def __post_init__(self) -> None:
        super().__post_init__()
        self.slurm.version = self.shape.slurm
        self.put_pool(max_concurrent_replacements=self.shape.at_once)
        policy = RemediationPolicySpec(routes=self.routes, max_fenced_nodes=self.shape.max_fenced_nodes)
        self.put_policy(policy)

    @classmethod
    def of(cls, shape: Shape) -> SoakWorld:
        return cls(
            replicas=shape.replicas,
            spares=shape.spares,
            grace_seconds=shape.grace_seconds,
            warm=shape.warm,
            shape=shape,
        )

    def running_on(self, slurm_node: str) -> list[MemoryJob]:
        return [job for job in self.slurm.job_table.values() if job.state == "RUNNING" and slurm_node in job.nodes]

    def jobs_end_on(self, slurm_node: str) -> None:
        """One more cause for each job that Slurm ends with this node, and for the other parts of such a one."""
        parts = {part.job_id for job in self.running_on(slurm_node) for part in self.slurm.whole(job)}
        for job in sorted(parts):
            self.truth.ended(job)

    def _terminating(self, name: str) -> None:
        if not self.slurm.node_table[name].down:
            self.jobs_end_on(name)
        super()._terminating(name)

    async def run(self) -> None:
        while True:
            self.step()
            self._look()
            await asyncio.sleep(STEP_SECONDS)

    def _look(self) -> None:
        """The budget, as it stands in the records at each moment."""
        holders = [str(body["metadata"]["name"]) for body in self.bodies() if _holds_slot(body)]
        if len(holders) > self.shape.at_once:
            self.truth.wrong(f"{len(holders)} replacements at once, {self.shape.at_once} allowed: {sorted(holders)}")

    def records(self) -> list[Remediation]:
        """As they are stored, to look at: each version is parsed once."""
        for body in self.bodies():
            name = str(body["metadata"]["name"])
            if name not in self._parsed or self._parsed[name][0] is not body:
                self._parsed[name] = body, Remediation.from_wire(body)
        return [self._parsed[str(body["metadata"]["name"])][1] for body in self.bodies()]

    def actives(self) -> list[str]:
        """Nodes that serve now."""
        nodes = self.kube._objects.get(NODE, {}).values()
        return sorted(str(node["metadata"]["name"]) for node in nodes if _serves(node))

    def change_node(self, name: str, change: Callable[[Json], Any]) -> None:
        body = self.kube.peek(NODE, name)
        if body is not None:
            change(body)
            self.kube.put(NODE, body)


def _holds_slot(body: Json) -> bool:
    status: Json = body.get("status") or {}
    replacement: Json = status.get("replacement") or {}
    under_way = bool(replacement.get("claimedAt")) and not replacement.get("quarantinedAt")
    return status.get("outcome", "Open") == "Open" and under_way


def _serves(node: Json) -> bool:
    return node["metadata"].get("labels", {}).get(LABEL_ROLE) == ROLE_ACTIVE
