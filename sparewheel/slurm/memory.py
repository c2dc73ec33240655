"""Slurm in memory, for tests. What DOWN, DRAIN, requeue and expedited requeue do follows what was measured on 26.05.5:

- a node set DOWN ends its jobs there at once; survivors get TERM and save; Slurm never waits for the struck node;
- an expedited batch job keeps its survivors and starts again as soon as they have saved, before any rival;
- a node that is brought back gets no job until its slurmd has answered slurmctld's next ping (``PING_SECONDS``);
- a job that starts where a rank of its last attempt still runs is refused by that slurmd ("Duplicate jobid"): the node
  drains and the job hangs;
- any other batch job waits ``requeue_delay_seconds`` and then its turn; a job that may not be requeued is NODE_FAIL;
- a heterogeneous job is ended and requeued as a whole, whichever of its parts ran on the node;
- an expedited job that ends non-zero by itself is held (REQUEUE_HOLD), unless an Epilog failed on one of its nodes.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from math import inf
from typing import Final, Literal

from sparewheel.slurm.memory_objects import LIVE, MemoryJob, MemoryNode, job_view
from sparewheel.slurm.memory_scheduler import MemoryScheduler
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
    "delete_node",
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
SUBMITTED_FROM: Final = 1000
"""Numbers of jobs that the product submits; those of tests are lower."""
PING_SECONDS: Final = 1.6
"""A node that was DOWN is silent for so long after RESUME, as seen in the log of slurmctld 26.05.5."""


@dataclass(slots=True)
class _Fault:
    error: Exception
    method: Method | None
    when: Literal["before", "after"]
    times: int


@dataclass(slots=True)
class MemorySlurm(MemoryScheduler):
    """Implements ``sparewheel.slurm.port.Slurm``; time passes with the clock, looked at on every call."""

    version: str = "26.05.5"
    epilog_fails_on: set[str] = field(default_factory=set[str])
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
        node = self.node_table[name]
        node.slurmd_start_time = self.clock.now()
        if not node.slurmd_up:
            node.slurmd_up, node.silent_until = True, 0.0

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
                job.held, job.requeue_held, job.state_reason, job.kept = True, True, "JobHeldUser", []
        else:
            job.state = "FAILED" if failed else "COMPLETED"
        self._settle()

    def cancel(self, job_id: int) -> None:
        job = self.job_table[job_id]
        job.state, job.end_time, job.kept, job.requeue_held = "CANCELLED", self.clock.now(), [], False
        self._settle()

    # ------------------------------------------------------------------ the port
    async def ping(self) -> Ping:
        self._begin("ping")
        return Ping(True, self.version, ("slurmctld",))

    async def node(self, name: str) -> SlurmNode:
        self._begin("node", name)
        return self.node_view(self._node(name))

    async def nodes(self) -> list[SlurmNode]:
        self._begin("nodes")
        return [self.node_view(node) for node in self.node_table.values()]

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
                        answers = self.clock.monotonic_seconds() + PING_SECONDS
                        node.silent_until = answers if node.slurmd_up else inf
                    node.down = node.drain = False
                case _:
                    raise SlurmError(f"node {name}: 500 Invalid node state {state}")
        if not node.down and not node.drain:
            self.give_reason(name, "")
        self._settle()
        self._raise("set_node_state", "after")

    async def delete_node(self, name: str) -> None:
        self._begin("delete_node", name)
        if any(name in {*job.nodes, *job.completing} for job in self.job_table.values()):
            raise SlurmError(f"delete node {name}: 500 Node has jobs")
        if any(name in kept.nodes for kept in self.reservation_table.values()):
            raise SlurmError(f"delete node {name}: 500 Node is in a reservation")
        self.node_table.pop(name, None)
        self._raise("delete_node", "after")

    async def job(self, job_id: int) -> SlurmJob:
        self._begin("job", job_id)
        return job_view(self._job(job_id))

    async def jobs(self) -> list[SlurmJob]:
        self._begin("jobs")
        return [job_view(job) for job in self.job_table.values()]

    async def requeue(self, job_id: int) -> None:
        self._begin("requeue", job_id)
        job = self._job(job_id)
        if job.state == "PENDING":
            raise SlurmError(f"requeue job {job_id}: 500 Job is pending execution")
        if not job.batch or not job.requeue:
            raise SlurmError(f"requeue job {job_id}: 500 Requested operation is presently disabled")
        for part in self.whole(job):
            self._requeue(part, save=part.state == "RUNNING", expedite=False, without=[])
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
