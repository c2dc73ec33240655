"""Slurm in memory, for tests. What DOWN, DRAIN, requeue and expedited requeue do follows what was measured on 26.05.5:

- a node set DOWN ends its jobs there at once; survivors get TERM and save; Slurm never waits for the struck node;
- an expedited batch job keeps its survivors and starts again as soon as they have saved, before any rival;
- a node that is brought back gets no job until slurmctld's next ping is answered (``PING_SECONDS``);
- any other batch job waits ``requeue_delay_seconds`` and then its turn; a job that may not be requeued is NODE_FAIL;
- an expedited job that ends non-zero by itself is held (REQUEUE_HOLD), unless an Epilog failed on one of its nodes.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Final, Literal

from sparewheel.clock import Clock, SystemClock
from sparewheel.slurm.port import (
    BatchJob,
    Ping,
    SlurmError,
    SlurmJob,
    SlurmNode,
    SlurmNotFoundError,
    SlurmReservation,
)

Method = Literal[
    "ping",
    "node",
    "nodes",
    "set_node_state",
    "job",
    "jobs",
    "requeue",
    "update_job",
    "submit_batch",
    "cancel_job",
    "reservations",
    "put_reservation",
    "delete_reservation",
]
LIVE: Final = frozenset({"RUNNING", "PENDING"})
SUBMITTED_FROM: Final = 1000
"""Numbers of jobs that the product submits; those of tests are lower."""
PING_SECONDS: Final = 1.6
"""A node that was DOWN is silent for so long after RESUME, as seen in the log of slurmctld 26.05.5."""


@dataclass(slots=True)
class MemoryNode:
    """Whole nodes are given to jobs, as gang-scheduled training takes them."""

    name: str
    down: bool = False
    drain: bool = False
    reason: str = ""
    reason_changed_at: datetime | None = None
    boot_time: datetime | None = None
    slurmd_start_time: datetime | None = None
    silent_until: float = 0.0
    """Monotonic: until then slurmctld waits for its answer to a ping."""


@dataclass(slots=True)
class MemoryJob:
    job_id: int
    node_count: int = 1
    user: str = "alice"
    name: str = "train"
    batch: bool = True
    requeue: bool = True
    expedited: bool = True
    save_seconds: float = 2.0
    """How long each rank saves after TERM."""
    array_job_id: int | None = None
    het_job_id: int | None = None
    priority: int = 1
    state: str = "PENDING"
    held: bool = False
    expediting: bool = False
    state_reason: str = ""
    nodes: list[str] = field(default_factory=list[str])
    kept: list[str] = field(default_factory=list[str])
    """Survivors, which an expedited job takes again where nobody else had them meanwhile."""
    completing: dict[str, float] = field(default_factory=dict[str, float])
    """Nodes where ranks still save, until when (monotonic)."""
    begin_seconds: float = 0.0
    restart_count: int = 0
    exit_code: int | None = None
    exit_signal: int | None = None
    submit_time: datetime | None = None
    start_time: datetime | None = None
    end_time: datetime | None = None
    extra: str = ""
    comment: str = ""
    reservation: str = ""
    """The only one on whose nodes it runs; on nodes of no reservation where it names none."""
    wanted_node: str = ""
    script: str = ""
    started_monotonic: float = 0.0


@dataclass(slots=True)
class _Fault:
    error: Exception
    method: Method | None
    when: Literal["before", "after"]
    times: int


@dataclass(slots=True)
class MemorySlurm:
    """Implements ``sparewheel.slurm.port.Slurm``; time passes with the clock, looked at on every call."""

    clock: Clock = field(default_factory=SystemClock)
    version: str = "26.05.5"
    requeue_delay_seconds: float = 5.0
    epilog_fails_on: set[str] = field(default_factory=set[str])
    node_table: dict[str, MemoryNode] = field(default_factory=dict[str, MemoryNode])
    job_table: dict[int, MemoryJob] = field(default_factory=dict[int, MemoryJob])
    reservation_table: dict[str, SlurmReservation] = field(default_factory=dict[str, SlurmReservation])
    script_seconds: dict[str, float] = field(default_factory=dict[str, float])
    """How long a submitted script runs on a node; one second where nothing is said."""
    script_exits: dict[str, int] = field(default_factory=dict[str, int])
    """Its exit code there; 0 where nothing is said."""
    calls: list[tuple[str, tuple[object, ...]]] = field(default_factory=list[tuple[str, tuple[object, ...]]])
    _faults: list[_Fault] = field(default_factory=list[_Fault])

    # ------------------------------------------------------------------ for tests
    def fail(
        self,
        error: Exception,
        method: Method | None = None,
        *,
        when: Literal["before", "after"] = "before",
        times: int = 1,
    ) -> None:
        """Let the next calls fail, before or after they took effect."""
        self._faults.append(_Fault(error, method, when, times))

    def add_node(self, name: str, *, drain_reason: str = "") -> MemoryNode:
        """A slurmd registers for the first time; ``drain_reason``: its ``--conf`` says State=DRAIN and this Reason."""
        node = MemoryNode(name, boot_time=self.clock.now(), slurmd_start_time=self.clock.now())
        self.node_table[name] = node
        node.drain = bool(drain_reason)
        self.give_reason(name, drain_reason)
        self._settle()
        return node

    def restart_slurmd(self, name: str) -> None:
        """The worker came up again, perhaps on another host: it registers and stays as it was set."""
        self.node_table[name].slurmd_start_time = self.clock.now()

    def give_reason(self, name: str, reason: str) -> None:
        node = self.node_table[name]
        node.reason, node.reason_changed_at = reason, self.clock.now() if reason else None

    def submit(self, job: MemoryJob) -> MemoryJob:
        job.submit_time = self.clock.now()
        self.job_table[job.job_id] = job
        self._settle()
        return job

    def end_job(self, job_id: int, exit_code: int = 0, exit_signal: int | None = None) -> None:
        """The job ends by itself on all its nodes."""
        self._settle()
        job = self.job_table[job_id]
        epilog_failed = [name for name in job.nodes if name in self.epilog_fails_on]
        for name in epilog_failed:
            self.node_table[name].drain = True
            self.give_reason(name, "Epilog error")
        failed = bool(exit_code or exit_signal)
        job.exit_code, job.exit_signal, job.end_time = exit_code, exit_signal, self.clock.now()
        if failed and job.batch and job.expedited and job.requeue:
            self._requeue(job, save=False, expedite=bool(epilog_failed), without=epilog_failed)
            if not epilog_failed:
                job.held, job.state_reason, job.kept = True, "JobHeldUser", []
        else:
            job.state = "FAILED" if failed else "COMPLETED"
        self._settle()

    def cancel(self, job_id: int) -> None:
        job = self.job_table[job_id]
        job.state, job.end_time, job.kept = "CANCELLED", self.clock.now(), []
        self._settle()

    # ------------------------------------------------------------------ the port
    async def ping(self) -> Ping:
        self._begin("ping")
        return Ping(True, self.version, ("slurmctld",))

    async def node(self, name: str) -> SlurmNode:
        self._begin("node", name)
        return self._node_view(self._node(name))

    async def nodes(self) -> list[SlurmNode]:
        self._begin("nodes")
        return [self._node_view(node) for node in self.node_table.values()]

    async def set_node_state(self, name: str, states: Sequence[str], reason: str) -> None:
        self._begin("set_node_state", name, tuple(states), reason)
        node = self._node(name)
        for state in states:
            match state:
                case "DOWN":
                    self.give_reason(name, reason or node.reason)
                    if not node.down:
                        node.down = True
                        self._strike(name)
                case "DRAIN":
                    node.drain = True
                    self.give_reason(name, reason or node.reason)
                case "UNDRAIN":
                    node.drain = False
                case "RESUME" | "IDLE":
                    if node.down:
                        node.silent_until = self.clock.monotonic_seconds() + PING_SECONDS
                    node.down = node.drain = False
                case _:
                    raise SlurmError(f"node {name}: 500 Invalid node state {state}")
        if not node.down and not node.drain:
            self.give_reason(name, "")
        self._settle()
        self._raise("set_node_state", "after")

    async def job(self, job_id: int) -> SlurmJob:
        self._begin("job", job_id)
        return self._job_view(self._job(job_id))

    async def jobs(self) -> list[SlurmJob]:
        self._begin("jobs")
        return [self._job_view(job) for job in self.job_table.values()]

    async def requeue(self, job_id: int) -> None:
        self._begin("requeue", job_id)
        job = self._job(job_id)
        if job.state == "PENDING":
            raise SlurmError(f"requeue job {job_id}: 500 Job is pending execution")
        if not job.batch or not job.requeue:
            raise SlurmError(f"requeue job {job_id}: 500 Requested operation is presently disabled")
        self._requeue(job, save=job.state == "RUNNING", expedite=False, without=[])
        self._settle()
        self._raise("requeue", "after")

    async def update_job(
        self, job_id: int, *, comment: str | None = None, priority: int | None = None, hold: bool | None = None
    ) -> None:
        self._begin("update_job", job_id, comment, priority, hold)
        job = self._job(job_id)
        job.comment = job.comment if comment is None else comment
        job.priority = job.priority if priority is None else priority
        if hold is not None:
            job.held, job.state_reason = hold, "JobHeldAdmin" if hold else ""
        self._settle()
        self._raise("update_job", "after")

    async def submit_batch(self, job: BatchJob) -> int:
        self._begin("submit_batch", job.name, job.node, job.reservation)
        if job.reservation and job.reservation not in self.reservation_table:
            raise SlurmError(f"submit job {job.name}: 500 Requested reservation is invalid")
        self._node(job.node)
        number = max([SUBMITTED_FROM, *self.job_table]) + 1
        own = MemoryJob(number, user="slurm", name=job.name, requeue=False, expedited=False, save_seconds=0.0)
        own.reservation, own.wanted_node, own.script = job.reservation, job.node, job.script
        own.submit_time = self.clock.now()
        self.job_table[number] = own
        self._settle()
        self._raise("submit_batch", "after")
        return number

    async def cancel_job(self, job_id: int) -> None:
        self._begin("cancel_job", job_id)
        job = self.job_table.get(job_id)
        if job is not None and job.state in LIVE:
            self.cancel(job_id)
        self._raise("cancel_job", "after")

    async def reservations(self) -> list[SlurmReservation]:
        self._begin("reservations")
        return list(self.reservation_table.values())

    async def put_reservation(self, wanted: SlurmReservation) -> None:
        self._begin("put_reservation", wanted.name, wanted.nodes)
        for name in wanted.nodes:
            if name not in self.node_table:
                raise SlurmError(f"reservation {wanted.name}: 422 Invalid node name specified")
        self.reservation_table[wanted.name] = wanted
        self._raise("put_reservation", "after")

    async def delete_reservation(self, name: str) -> None:
        self._begin("delete_reservation", name)
        if any(job.reservation == name and job.state in LIVE for job in self.job_table.values()):
            raise SlurmError(f"delete reservation {name}: 500 Requested reservation is in use")
        self.reservation_table.pop(name, None)
        self._settle()
        self._raise("delete_reservation", "after")

    # ------------------------------------------------------------------ inside
    def _begin(self, method: Method, *arguments: object) -> None:
        self.calls.append((method, arguments))
        self._raise(method, "before")
        self._settle()

    def _raise(self, method: Method, when: str) -> None:
        for fault in self._faults:
            if fault.times > 0 and fault.when == when and fault.method in {None, method}:
                fault.times -= 1
                raise fault.error

    def _node(self, name: str) -> MemoryNode:
        if name not in self.node_table:
            raise SlurmNotFoundError(f"node {name}: slurmctld does not list it")
        return self.node_table[name]

    def _job(self, job_id: int) -> MemoryJob:
        if job_id not in self.job_table:
            raise SlurmNotFoundError(f"job {job_id}: 404 Invalid job id specified")
        return self.job_table[job_id]

    def _strike(self, name: str) -> None:
        for job in self.job_table.values():
            if job.state != "RUNNING" or name not in job.nodes:
                continue
            if job.batch and job.requeue:
                self._requeue(job, save=True, expedite=job.expedited, without=[name])
            else:
                self._save(job, without=[name])
                job.state, job.end_time = "NODE_FAIL", self.clock.now()

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

    def _settle(self) -> None:
        """Let what is due by the clock happen: savers finish, pending jobs start."""
        now = self.clock.monotonic_seconds()
        for job in self.job_table.values():
            self._end_script(job, now)
            job.completing = {name: until for name, until in job.completing.items() if until > now}
        pending = [job for job in self.job_table.values() if job.state == "PENDING" and not job.held]
        for job in sorted(pending, key=lambda job: (not job.expediting, -job.priority, job.job_id)):
            if job.completing or job.begin_seconds > now:
                continue
            free = [name for name in self.node_table if self._is_free(name, job)]
            chosen = sorted(free, key=lambda name: (name not in job.kept, name))[: job.node_count]
            if len(chosen) == job.node_count:
                job.nodes, job.kept, job.state, job.state_reason = sorted(chosen), [], "RUNNING", "None"
                job.expediting, job.start_time, job.end_time = False, self.clock.now(), None
                job.exit_code = job.exit_signal = None
                job.started_monotonic = now
            else:
                job.state_reason = "Resources"

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

    def _node_view(self, node: MemoryNode) -> SlurmNode:
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

    def _job_view(self, job: MemoryJob) -> SlurmJob:
        states = {job.state}
        states |= {"COMPLETING"} if job.completing else set()
        states |= {"REQUEUE_HOLD"} if job.held and job.restart_count else set()
        states |= {"EXPEDITING"} if job.expediting and job.state == "PENDING" else set()
        return SlurmJob(
            job.job_id,
            frozenset(states),
            user=job.user,
            name=job.name,
            partition="gpu",
            nodes=tuple(job.nodes or job.completing),
            restart_count=job.restart_count,
            batch=job.batch,
            requeue=job.requeue,
            expedited=job.expedited,
            state_reason=job.state_reason,
            exit_code=job.exit_code,
            exit_signal=job.exit_signal,
            array_job_id=job.array_job_id,
            het_job_id=job.het_job_id,
            submit_time=job.submit_time,
            start_time=job.start_time,
            end_time=None if job.state in LIVE else job.end_time,
            extra=job.extra,
            comment=job.comment,
        )
