"""A Slurm that schedules: DOWN ends and requeues jobs, survivors save first, pending jobs start where nodes are free.

What DOWN, DRAIN and requeue do follows measurements on Slurm 26.05.5; ``step()`` lets time pass.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta

from sparewheel.clock import Clock
from sparewheel.slurm.port import Ping, SlurmError, SlurmJob, SlurmNode, SlurmNotFoundError, SlurmUnavailableError

STEP_AFTER_START_SECONDS = 1.5
_ENDED = {"COMPLETED", "FAILED", "CANCELLED", "NODE_FAIL", "TIMEOUT"}


@dataclass
class FakeJob:
    job_id: int
    size: int
    user: str = "ada"
    batch: bool = True
    requeue: bool = True
    expedited: bool = True
    array: int | None = None
    het: int | None = None
    save_seconds: float = 3.0
    state: str = "PENDING"
    nodes: list[str] = field(default_factory=list[str])
    kept: list[str] = field(default_factory=list[str])
    """Survivors that an expedited requeue keeps for the job."""
    restart_count: int = 0
    priority: int = 100
    held: bool = False
    state_reason: str = ""
    exit_code: int | None = None
    start: datetime | None = None
    end: datetime | None = None
    saving_until: datetime | None = None
    extra: str = ""
    comment: str = ""
    killed_by: int | None = None
    step_reported: bool = False
    starts: list[tuple[datetime, tuple[str, ...]]] = field(default_factory=list[tuple[datetime, tuple[str, ...]]])


@dataclass
class FakeNode:
    name: str
    states: set[str] = field(default_factory=lambda: {"IDLE"})
    reason: str = ""
    started: datetime | None = None
    last_change: str = ""


@dataclass
class FakeSlurm:
    """Implements ``sparewheel.slurm.port.Slurm``."""

    clock: Clock
    version: str = "26.05.5"
    nodes_by_name: dict[str, FakeNode] = field(default_factory=dict[str, FakeNode])
    jobs_by_id: dict[int, FakeJob] = field(default_factory=dict[int, FakeJob])
    down: bool = False
    """slurmrestd doesn't answer."""
    writes: list[tuple[str, object]] = field(default_factory=list[tuple[str, object]])

    # ------------------------------------------------------------------ the port
    async def _ask(self) -> None:
        await asyncio.sleep(0)
        if self.down:
            raise SlurmUnavailableError("slurmrestd: no answer; check that the RestApi pod runs")

    async def ping(self) -> Ping:
        await self._ask()
        return Ping(responding=True, version=self.version)

    async def node(self, name: str) -> SlurmNode:
        await self._ask()
        if name not in self.nodes_by_name:
            raise SlurmNotFoundError(f"node {name}: unknown")
        return self._node(self.nodes_by_name[name])

    async def nodes(self) -> list[SlurmNode]:
        await self._ask()
        return [self._node(node) for node in self.nodes_by_name.values()]

    def _node(self, node: FakeNode) -> SlurmNode:
        states = set(node.states)
        for job in self.jobs_by_id.values():
            if node.name in job.nodes and job.state == "COMPLETING":
                states.add("COMPLETING")
            elif node.name in job.nodes and job.state == "RUNNING":
                states.add("ALLOCATED")
        return SlurmNode(node.name, frozenset(states), node.reason, slurmd_start_time=node.started)

    async def set_node_state(self, name: str, states: Sequence[str], reason: str) -> None:
        await self._ask()
        self.writes.append((name, tuple(states)))
        node = self.nodes_by_name[name]
        for state in states:
            if state == "DOWN":
                node.states, node.reason = {"DOWN", *(node.states & {"DRAIN"})}, reason
                self._strike(name)
            elif state == "DRAIN":
                node.states, node.reason = node.states | {"DRAIN"}, reason
            elif state in {"RESUME", "UNDRAIN", "IDLE"}:
                if not node.states & {"DOWN", "DRAIN"}:
                    raise SlurmError(f"node {name}: Invalid node state specified")
                node.states, node.reason = {"IDLE"}, ""
            node.last_change = state

    async def job(self, job_id: int) -> SlurmJob:
        await self._ask()
        if job_id not in self.jobs_by_id:
            raise SlurmNotFoundError(f"job {job_id}: unknown")
        return self._job(self.jobs_by_id[job_id])

    async def jobs(self) -> list[SlurmJob]:
        await self._ask()
        return [self._job(job) for job in self.jobs_by_id.values()]

    def _job(self, job: FakeJob) -> SlurmJob:
        states = {job.state}
        if job.state == "COMPLETING":
            states = {"RUNNING", "COMPLETING"}
        return SlurmJob(
            job_id=job.job_id,
            states=frozenset(states),
            user=job.user,
            name="train",
            partition="gpu",
            nodes=tuple(job.nodes),
            restart_count=job.restart_count,
            batch=job.batch,
            requeue=job.requeue,
            expedited=job.expedited,
            state_reason="JobHeldUser" if job.held else job.state_reason,
            exit_code=job.exit_code,
            array_job_id=job.array,
            het_job_id=job.het,
            start_time=job.start.replace(microsecond=0) if job.start else None,
            end_time=job.end,
            extra=job.extra,
            comment=job.comment,
            kill_requested_by=job.killed_by,
        )

    async def requeue(self, job_id: int) -> None:
        await self._ask()
        self.writes.append(("requeue", job_id))
        job = self.jobs_by_id[job_id]
        if job.state == "PENDING":
            raise SlurmError(f"job {job_id}: Job is pending execution")
        if job.state in {"RUNNING", "COMPLETING"}:
            job.state, job.saving_until = "COMPLETING", self.clock.now() + timedelta(seconds=job.save_seconds)
            return
        self._requeued(job)
        job.held = job.expedited  # a job that failed by itself comes back held

    async def update_job(
        self, job_id: int, *, comment: str | None = None, priority: int | None = None, hold: bool | None = None
    ) -> None:
        await self._ask()
        self.writes.append(("update", job_id))
        job = self.jobs_by_id[job_id]
        job.comment = job.comment if comment is None else comment
        job.priority = job.priority if priority is None else priority
        job.held = job.held if hold is None else hold

    async def signal_job(self, job_id: int, signal: str) -> None:
        await self._ask()

    # ------------------------------------------------------------------ what happens
    def crash(self, job_id: int, *, expedited_hold: bool = False) -> None:
        """The job's script ends non-zero by itself."""
        job = self.jobs_by_id[job_id]
        job.exit_code, job.end = 1, self.clock.now()
        if expedited_hold:
            self._requeued(job)
            job.held = True
        else:
            job.state = "FAILED"

    def cancel(self, job_id: int) -> None:
        job = self.jobs_by_id[job_id]
        job.state, job.end, job.killed_by, job.exit_code = "CANCELLED", self.clock.now(), 1001, 0

    def _strike(self, name: str) -> None:
        for job in self.jobs_by_id.values():
            if name not in job.nodes or job.state != "RUNNING":
                continue
            if job.batch and job.requeue and job.het is None:
                job.state, job.saving_until = "COMPLETING", self.clock.now() + timedelta(seconds=job.save_seconds)
                job.kept = [node for node in job.nodes if node != name] if job.expedited else []
            else:
                job.state, job.end = "NODE_FAIL", self.clock.now()

    def _requeued(self, job: FakeJob) -> None:
        job.state, job.restart_count, job.nodes, job.saving_until = "PENDING", job.restart_count + 1, [], None
        job.start = job.end = None
        job.step_reported = False

    def register(self, name: str) -> None:
        """A slurmd comes up under this name. A node set DOWN by hand stays so."""
        node = self.nodes_by_name.setdefault(name, FakeNode(name))
        node.states.discard("NOT_RESPONDING")
        node.started = self.clock.now()

    def terminating(self, name: str) -> None:
        """Slinky's preStop."""
        node = self.nodes_by_name[name]
        node.states, node.reason = {"DOWN", *(node.states & {"DRAIN"})}, "slurm-operator: Pod is terminating"
        self._strike(name)

    def alive_on(self, name: str) -> list[int]:
        """Jobs with processes on the node."""
        return [
            job.job_id
            for job in self.jobs_by_id.values()
            if name in job.nodes and job.state in {"RUNNING", "COMPLETING"}
        ]

    def step(self) -> None:
        now = self.clock.now()
        for job in self.jobs_by_id.values():
            if job.state == "COMPLETING" and job.saving_until is not None and now >= job.saving_until:
                self._requeued(job)
            if job.state == "RUNNING" and not job.step_reported and job.start is not None:
                self._report_step(job, now)
        waiting = [job for job in self.jobs_by_id.values() if job.state == "PENDING" and not job.held]
        for job in sorted(waiting, key=lambda one: (-one.priority, not one.kept, one.job_id)):
            self._start(job, now)

    def _start(self, job: FakeJob, now: datetime) -> None:
        kept_by_others = {
            node
            for other in self.jobs_by_id.values()
            if other is not job and other.state == "PENDING"
            for node in other.kept
        }
        kept_by_others |= {
            node
            for other in self.jobs_by_id.values()
            if other is not job and other.state == "COMPLETING"
            for node in other.kept
        }
        free = [
            node.name
            for node in self.nodes_by_name.values()
            if node.states == {"IDLE"} and not self.alive_on(node.name) and node.name not in kept_by_others
        ]
        if len(free) >= job.size:
            job.nodes, job.state, job.start, job.kept = free[: job.size], "RUNNING", now, []
            job.starts.append((now, tuple(job.nodes)))

    def _report_step(self, job: FakeJob, now: datetime) -> None:
        if job.start is None or now < job.start + timedelta(seconds=STEP_AFTER_START_SECONDS):
            return
        job.step_reported = True
        first = 100 * job.restart_count + 1
        job.extra = json.dumps(
            {
                "sparewheel": {
                    "attempt": job.restart_count,
                    "resumed_from_step": first - 1 if job.restart_count else None,
                    "first_step": first,
                    "first_step_time": now.isoformat(timespec="milliseconds").replace("+00:00", "Z"),
                }
            }
        )
