"""What slurmctld does by itself in the Slurm in memory: strikes, requeues, and starts jobs where they may run."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from math import inf

from sparewheel.clock import Clock, SystemClock
from sparewheel.slurm.memory_objects import MemoryJob, MemoryNode
from sparewheel.slurm.port import SlurmNode, SlurmReservation


@dataclass(slots=True)
class MemoryScheduler:
    """Time passes with the clock; what is due by it happens when ``_settle`` looks."""

    clock: Clock = field(default_factory=SystemClock)
    requeue_delay_seconds: float = 5.0
    node_table: dict[str, MemoryNode] = field(default_factory=dict[str, MemoryNode])
    job_table: dict[int, MemoryJob] = field(default_factory=dict[int, MemoryJob])
    reservation_table: dict[str, SlurmReservation] = field(default_factory=dict[str, SlurmReservation])
    script_seconds: dict[str, float] = field(default_factory=dict[str, float])
    """How long a submitted script runs on a node; one second where nothing is said."""
    script_exits: dict[str, int] = field(default_factory=dict[str, int])
    """Its exit code there; 0 where nothing is said."""

    def _strike(self, name: str) -> None:
        hit = [job for job in self.job_table.values() if job.state == "RUNNING" and name in job.nodes]
        now, left = self.clock.monotonic_seconds(), self.node_table[name].left
        left |= {job.job_id: inf if job.hangs else now + job.save_seconds for job in hit}
        parts = {part.job_id: part for one in hit for part in self.whole(one)}
        for job in parts.values():
            if job.batch and job.requeue:
                self._requeue(job, save=True, expedite=job.expedited, without=[name])
            else:
                self._save(job, without=[name])
                job.state, job.end_time = "NODE_FAIL", self.clock.now()

    def whole(self, job: MemoryJob) -> list[MemoryJob]:
        """A job, and what else of it runs where it is heterogeneous: Slurm ends and requeues that as one."""
        running = (other for other in self.job_table.values() if other.state == "RUNNING" and other is not job)
        return [job, *(other for other in running if job.het_job_id and other.het_job_id == job.het_job_id)]

    def _save(self, job: MemoryJob, without: Sequence[str]) -> None:
        until = self.clock.monotonic_seconds() + job.save_seconds
        job.completing = {name: until for name in job.nodes if name not in without}

    def _requeue(self, job: MemoryJob, *, save: bool, expedite: bool, without: Sequence[str]) -> None:
        job.completing = {}
        if save:
            self._save(job, without)
        job.kept = [name for name in job.nodes if name not in without] if expedite else []
        job.expediting = expedite
        delay = 0.0 if expedite else self.requeue_delay_seconds
        job.state, job.nodes, job.state_reason = "PENDING", [], "" if expedite else "BeginTime"
        job.begin_seconds = self.clock.monotonic_seconds() + delay
        job.restart_count += 1
        job.submit_time = self.clock.now()

    def _settle(self) -> None:
        """Let what is due by the clock happen: savers finish, pending jobs start."""
        now = self.clock.monotonic_seconds()
        for job in self.job_table.values():
            self._end_script(job, now)
            job.completing = {name: until for name, until in job.completing.items() if until > now}
        for node in self.node_table.values():
            node.left = {job: until for job, until in node.left.items() if until > now}
        pending = [job for job in self.job_table.values() if job.state == "PENDING" and not job.held]
        for job in sorted(pending, key=lambda job: (not job.expediting, -job.priority, job.job_id)):
            if job.completing or job.begin_seconds > now:
                continue
            free = [name for name in self.node_table if self._is_free(name, job)]
            chosen = sorted(free, key=lambda name: (name not in job.kept, name))[: job.node_count]
            if len(chosen) == job.node_count:
                job.nodes, job.kept, job.state, job.state_reason = sorted(chosen), [], "RUNNING", "None"
                job.expediting, job.start_time, job.end_time = False, self.clock.now(), None
                job.exit_code, job.exit_signal, job.requeue_held = None, None, False
                job.started_monotonic = now
                self._refuse_a_duplicate(job)
            else:
                job.state_reason = "Resources"

    def _refuse_a_duplicate(self, job: MemoryJob) -> None:
        """A slurmd that still has a rank of the job's last attempt takes no other: its node drains, the job hangs."""
        refusing = [node for node in map(self.node_table.__getitem__, job.nodes) if job.job_id in node.left]
        for node in refusing:
            node.drain, node.reason, node.reason_changed_at = True, "Duplicate jobid", self.clock.now()
        if refusing:
            self._requeue(job, save=False, expedite=False, without=[])
            job.completing = {node.name: inf for node in refusing}

    def _end_script(self, job: MemoryJob, now: float) -> None:
        if not job.script or job.state != "RUNNING":
            return
        (node,) = job.nodes
        if now - job.started_monotonic >= self.script_seconds.get(node, 1.0):
            job.exit_code, job.end_time = self.script_exits.get(node, 0), self.clock.now()
            job.state = "FAILED" if job.exit_code else "COMPLETED"

    def _is_free(self, name: str, job: MemoryJob) -> bool:
        """As Slurm does it: a job that lacks a node blocks nobody, not even where its own survivors are."""
        node = self.node_table[name]
        taken = any(
            (other.state == "RUNNING" and name in other.nodes) or name in other.completing
            for other in self.job_table.values()
        )
        usable = not (node.down or node.drain or self._silent(node) or taken)
        return usable and job.wanted_node in {"", name} and self._admits(name, job)

    def _silent(self, node: MemoryNode) -> bool:
        return self.clock.monotonic_seconds() < node.silent_until

    def _reserved(self, name: str) -> bool:
        return bool(self._reservations_of(name))

    def _reservations_of(self, name: str) -> list[SlurmReservation]:
        now = self.clock.now()
        kept = (one for one in self.reservation_table.values() if one.end_time is None or one.end_time > now)
        return [one for one in kept if name in one.nodes]

    def _admits(self, name: str, job: MemoryJob) -> bool:
        """A reservation for maintenance keeps its nodes from the jobs of every other one."""
        there = self._reservations_of(name)
        if not job.reservation:
            return not there
        return [one.name for one in there] == [job.reservation] and job.user in there[0].users

    def node_view(self, node: MemoryNode) -> SlurmNode:
        jobs = self.job_table.values()
        if node.down:
            states = {"DOWN"}
        elif any(job.state == "RUNNING" and node.name in job.nodes for job in jobs):
            states = {"ALLOCATED"}
        else:
            states = {"IDLE"}
        states |= {"DRAIN"} if node.drain else set()
        states |= {"NOT_RESPONDING"} if self._silent(node) else set()
        states |= {"COMPLETING"} if any(node.name in job.completing for job in jobs) else set()
        states |= {"MAINTENANCE", "RESERVED"} if self._reserved(node.name) else set()
        return SlurmNode(
            node.name,
            frozenset(states | {"DYNAMIC_NORM"}),
            reason=node.reason,
            reason_changed_at=node.reason_changed_at,
            boot_time=node.boot_time,
            slurmd_start_time=node.slurmd_start_time,
            partitions=("gpu",),
            gres="gpu:8",
        )
