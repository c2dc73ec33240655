"""When the struck node's pods may go: no job process left, or the grace over; budgets honoured until the deadline."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from sparewheel.api.remediation import FenceKind, NodeStage, Remediation
from sparewheel.remediation.decide.observations import HealthView, NodeView, PodView, SlurmNodeView
from sparewheel.remediation.decide.record import stage_record
from sparewheel.remediation.decide.sentences import clock
from sparewheel.remediation.decide.times import seconds_since

FRESH_SECONDS = 15.0
"""An agent's report heard longer ago than this says nothing about the processes of now."""
MAX_JOBS = 3
"""So many are named."""
STUCK_SECONDS = 60.0
"""A pod this long past its deletion time, under a kubelet that says it is alive, counts as stuck too."""


@dataclass(frozen=True, slots=True)
class Gate:
    open: bool
    why: str
    """Why it is open, or what it waits for."""
    look_again_seconds: float = 1.0


def jobs_gate(
    remediation: Remediation,
    health: HealthView | None,
    slurm: SlurmNodeView | None,
    now: datetime,
    fenced_seconds_ago: float | None = None,
) -> Gate:
    """May the worker pod be deleted? Not before the node was struck and its jobs were listed.

    ``fenced_seconds_ago``: since this controller saw it fenced, by a clock that nobody sets. The grace is never shorter
    than promised, and after any number of fail-overs it is over ``CLOCKS_APART`` after it should be, at the latest.
    """
    status = remediation.status
    struck = status.owned.slurm_struck_at
    nobody = nobody_left(remediation, health)
    if nobody:
        return Gate(open=True, why=nobody)
    if struck is None or status.jobs_listed_at is None:
        return Gate(open=False, why="the strike on the Slurm node")
    if status.fence is FenceKind.DRAIN:
        return _drained_gate(remediation, slurm)
    left = grace_left_seconds(remediation, now, fenced_seconds_ago)
    if left <= 0:
        return Gate(open=True, why="the grace is over")
    return Gate(open=False, why=saving_words(remediation, health), look_again_seconds=min(1.0, left))


def grace_left_seconds(remediation: Remediation, now: datetime, fenced_seconds_ago: float | None) -> float:
    """Of a node that was struck; the whole grace before that."""
    struck, grace = remediation.status.owned.slurm_struck_at, remediation.spec.grace_seconds
    return grace - seconds_since(struck, now, fenced_seconds_ago) if struck is not None else grace


def saving_words(remediation: Remediation, health: HealthView | None) -> str:
    """Whom it waits for, where the agent knows, and until when."""
    spec, struck = remediation.spec, remediation.status.owned.slurm_struck_at
    until = f"; grace ends {clock(struck + timedelta(seconds=spec.grace_seconds))}" if struck is not None else ""
    listed = processes_left(health)
    return f"{listed} to end: processes still run on {spec.node}{until}" if listed else f"the jobs to save{until}"


def processes_left(health: HealthView | None) -> str:
    """Jobs whose processes the agent sees now (``jobs 7, 8``); empty where it sees none or can't say."""
    return job_words(sorted(health.jobs_alive or ())) if health is not None and _current(health) else ""


def job_words(jobs: Sequence[int]) -> str:
    """``jobs 7, 8``; empty where there is none."""
    listed = ", ".join(str(job) for job in jobs[:MAX_JOBS]) + (" and others" if len(jobs) > MAX_JOBS else "")
    return f"job{'' if len(jobs) == 1 else 's'} {listed}" if jobs else ""


def _drained_gate(remediation: Remediation, slurm: SlurmNodeView | None) -> Gate:
    """Once it was open it stays so: its Slurm node may serve elsewhere by then, with other jobs."""
    record = remediation.status.replacement
    if record.worker_deleted_at is not None:
        return Gate(open=True, why="no job ran there when its worker was ended")
    if record.slurm_restored_at is not None and record.spare_slurm_node is None and not still_running(remediation):
        return Gate(open=True, why="its Slurm node serves elsewhere")
    if slurm is not None and "DRAIN" in slurm.states and not slurm.busy and not still_running(remediation):
        return Gate(open=True, why="the drained Slurm node holds no job")
    why = "the running jobs to end (the breaker is open: drained only)"
    return Gate(open=False, why=why, look_again_seconds=5.0)


def nobody_left(remediation: Remediation, health: HealthView | None) -> str:
    """Why surely no job process is left; empty when that is not known."""
    status = remediation.status
    if status.fence is FenceKind.NONE:
        return "no Slurm node ran there"
    if status.replacement.proven_off_at is not None:
        return "the host is proven off"
    if status.owned.slurm_struck_at is None or status.jobs_listed_at is None:
        return ""
    if agent_says_gone(health):
        return "the agent reports no job process"
    return "no job ran there" if status.fence is not FenceKind.DRAIN and not status.jobs else ""


def still_running(remediation: Remediation) -> bool:
    """Is there a job that runs on, as the breaker lets it?"""
    return any(not job.closed and job.requeued_at is None for job in remediation.status.jobs)


def agent_says_gone(health: HealthView | None) -> bool:
    """A report heard after the fence, heard just now, that could look and saw no job process."""
    return health is not None and _current(health) and health.jobs_alive is not None and not health.jobs_alive


def _current(health: HealthView) -> bool:
    return health.heard_since_fence and health.heard_seconds_ago <= FRESH_SECONDS


def evictable(pods: Iterable[PodView], agent_app: str, *, vetoing: bool = False) -> list[PodView]:
    """Pods that a drain removes: not the worker, daemons, mirrors, finished pods, the agent, nor a pod that vetoes.

    ``vetoing``: the vetoes were set aside, so their pods go too.
    """
    return [
        pod
        for pod in pods
        if not (
            pod.worker
            or pod.daemon
            or pod.mirror
            or pod.finished
            or (pod.veto and not vetoing)
            or pod.app_name == agent_app
        )
    ]


def deadline_over(remediation: Remediation, deadline_seconds: float, now: datetime) -> bool:
    """True when budgets need no longer be honoured: this long after the first of them was in the way."""
    records = [stage_record(remediation.status, stage) for stage in (NodeStage.MENDED, NodeStage.DRAINED)]
    begun = [record.started_at for record in records if record is not None]
    return bool(begun) and now >= min(begun) + timedelta(seconds=deadline_seconds)


def stuck(pod: PodView, node: NodeView, now: datetime) -> bool:
    """Nobody will end this pod: its kubelet is dead and its time is over, or it is far past its time."""
    if node.ready is not True:
        return pod.overdue(now, 0.0)
    return pod.overdue(now, STUCK_SECONDS)
