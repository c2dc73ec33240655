"""A healing, previewed: what would be done about a node now, by the very decisions that would do it. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime

from sparewheel.api.base import ObjectMeta
from sparewheel.api.gpu_pool import GpuPool
from sparewheel.api.names import AGENT_APP_NAME, ANNOTATION_REPLACE_REQUEST
from sparewheel.api.remediation import FenceKind, JobRecord, Remediation, RemediationSpec
from sparewheel.api.remediation_policy import RemediationPolicySpec, RemediationPolicyStatus
from sparewheel.remediation.decide.breaker import counted_since, fence_limit, fenced_since, one_too_many
from sparewheel.remediation.decide.budget import FleetLimits, holds_slot, replacement_refused
from sparewheel.remediation.decide.drain import evictable
from sparewheel.remediation.decide.jobs import victims
from sparewheel.remediation.decide.ladder import rungs_for
from sparewheel.remediation.decide.observations import JobView, NodeView, PodView, Unknown
from sparewheel.remediation.decide.record import is_open
from sparewheel.remediation.decide.rung_words import rule_words
from sparewheel.remediation.decide.triage import New, Report, triage
from sparewheel.remediation.decide.veto import Sight, veto_of

WISH = "a preview"


@dataclass(frozen=True, slots=True)
class Budget:
    """One PodDisruptionBudget and which of the node's pods it covers."""

    namespace: str
    name: str
    allowed: int
    """Disruptions that it allows now."""
    pods: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Known:
    """What the preview looks at; a look-up that failed is Unknown, and said so."""

    node: NodeView
    pods: tuple[PodView, ...] | Unknown
    pool: GpuPool | None
    policy: RemediationPolicySpec
    incidents: Sequence[Remediation]
    jobs: tuple[JobView, ...] | Unknown
    budgets: tuple[Budget, ...] | Unknown
    spare: str | None
    spare_why: str
    """Why this spare would be taken, or what is in the way of those there are."""
    expedited: bool
    """Slurm can requeue ahead of the queue while the job keeps its survivors."""
    now: datetime
    breaker: RemediationPolicyStatus = field(default_factory=RemediationPolicyStatus)
    gpu_nodes: int = 0
    """GPU nodes that take work, in all pools."""


@dataclass(frozen=True, slots=True)
class JobPreview:
    job_id: int
    user: str
    name: str
    requeues: bool
    why_not: str = ""


@dataclass(frozen=True, slots=True)
class Preview:
    """``refused``: why nothing would be done at all; the rest then says what there is all the same."""

    node: str
    pool: str
    refused: str
    dry_run: bool
    slurm_node: str | None
    fence: str
    jobs: tuple[JobPreview, ...]
    jobs_unknown: str
    """Why the jobs can't be told; empty when they can."""
    grace_seconds: int
    spare: str | None
    spare_why: str
    veto: str
    """What would keep the node from being drained and replaced."""
    budgets: tuple[Budget, ...]
    """Those that block an eviction now; honoured until the drain deadline."""
    budgets_unknown: str
    slots_used: int
    slots: int
    slot: str
    """What a replacement would wait for; empty where a slot is free."""
    fenced: int
    """Nodes whose fences count for the breaker: of its window, and since a person closed it."""
    fenced_nodes: tuple[str, ...]
    fence_limit: int
    fence_window_seconds: int
    breaker_open: bool
    ladder: str
    """What a fault that asks for a reset or a reboot would have tried first."""
    steps: tuple[str, ...] = field(default=())


def preview(known: Known) -> Preview:
    """What a person's ``sparewheel replace`` of the node, or a fault that asks for its replacement, would do."""
    pool, spec = known.pool, known.pool.spec if known.pool is not None else None
    record = _incident(known)
    name = record.spec.pool if record is not None else (pool.metadata.name if pool is not None else "")
    policy, incidents, now = known.policy, known.incidents, known.now
    fenced = fenced_since(incidents, counted_since(policy, known.breaker, now))
    too_many = one_too_many("", policy, known.breaker, known.gpu_nodes, incidents, now)
    breaker_open = known.breaker.breaker_open or bool(too_many)
    fleet = FleetLimits(policy.budget, known.gpu_nodes)
    slot = replacement_refused("", name, spec, incidents, now, fleet) if spec is not None else ""
    veto = ""
    if spec is not None and record is not None:
        rule = known.policy.veto
        veto = veto_of(record, Sight(known.pods, known.node, spec, known.now, rule)).reason
    slurm_node = record.spec.slurm_node if record is not None else None
    found = Preview(
        node=known.node.name,
        pool=name,
        refused=_refused(known, record),
        dry_run=record.spec.dry_run if record is not None else False,
        slurm_node=slurm_node,
        fence=_fence(known, slurm_node, breaker_is_open=breaker_open).value,
        jobs=_jobs(known, slurm_node),
        jobs_unknown=known.jobs.error if isinstance(known.jobs, Unknown) else "",
        grace_seconds=record.spec.grace_seconds if record is not None else 0,
        spare=known.spare,
        spare_why=known.spare_why,
        veto=veto,
        budgets=_blocking(known),
        budgets_unknown=known.budgets.error if isinstance(known.budgets, Unknown) else "",
        slots_used=sum(other.spec.pool == name and holds_slot(other) for other in known.incidents),
        slots=spec.max_concurrent_replacements if spec is not None else 0,
        slot=slot,
        fenced=len(fenced),
        fenced_nodes=tuple(sorted(fenced)),
        fence_limit=fence_limit(policy, known.gpu_nodes),
        fence_window_seconds=policy.fenced_window_seconds,
        breaker_open=breaker_open,
        ladder=_ladder(known, record),
    )
    return replace(found, steps=tuple(_steps(found, known)))


def _incident(known: Known) -> Remediation | None:
    """The record that triage would open for a person's wish; None where it opens none."""
    annotations = {**known.node.annotations, ANNOTATION_REPLACE_REQUEST: WISH}
    workers = tuple(pod for pod in known.pods if pod.worker) if isinstance(known.pods, tuple) else ()
    node = replace(known.node, annotations=annotations)
    report = Report(node=node, boot_id=known.node.boot_id, fresh=False, workers=workers)
    decision = triage(report, known.pool, known.policy, None, {}, known.now)
    return _record(decision.spec) if isinstance(decision, New) else None


def _ladder(known: Known, record: Remediation | None) -> str:
    if record is None or known.pool is None:
        return ""
    rungs, off = rungs_for(record.spec, known.pool.spec, known.policy, known.incidents, known.now)
    return f"none, because {off}" if off else rule_words(rungs)


def _record(spec: RemediationSpec) -> Remediation:
    return Remediation(metadata=ObjectMeta(name="preview"), spec=spec)


def _refused(known: Known, record: Remediation | None) -> str:
    name = known.node.name
    for other in known.incidents:
        if other.spec.node == name and is_open(other) and not other.spec.dry_run:
            return f"incident {other.metadata.name} is open for it already"
    if known.pool is None:
        return f"node {name} is in no GPU pool"
    if known.pool.spec.paused:
        return f"pool {known.pool.metadata.name} is paused"
    return "" if record is not None else f"node {name} takes no work of pool {known.pool.metadata.name}"


def _fence(known: Known, slurm_node: str | None, *, breaker_is_open: bool) -> FenceKind:
    if slurm_node is None:
        return FenceKind.NONE
    if breaker_is_open:
        return FenceKind.DRAIN
    return FenceKind.DOWN if known.expedited else FenceKind.REQUEUE


def _jobs(known: Known, slurm_node: str | None) -> tuple[JobPreview, ...]:
    if isinstance(known.jobs, Unknown) or slurm_node is None:
        return ()
    window = known.policy.crashed_job_window_seconds
    found = victims(known.jobs, slurm_node, {}, known.now, window, {})
    return tuple(_job(job) for job in sorted(found, key=lambda job: job.job_id) if not job.crashed_by_itself)


def _job(job: JobRecord) -> JobPreview:
    return JobPreview(job.job_id, job.user, job.job_name, not job.not_requeued_reason, job.not_requeued_reason)


def _blocking(known: Known) -> tuple[Budget, ...]:
    if isinstance(known.budgets, Unknown) or isinstance(known.pods, Unknown):
        return ()
    leaving = {f"{pod.namespace}/{pod.name}" for pod in evictable(known.pods, AGENT_APP_NAME)}
    covered = [replace(budget, pods=tuple(sorted(leaving & set(budget.pods)))) for budget in known.budgets]
    return tuple(budget for budget in covered if budget.pods and budget.allowed < len(budget.pods))


def _steps(found: Preview, known: Known) -> list[str]:
    """In the order in which they would begin."""
    if found.refused:
        return []
    steps = [f"cordon and taint node {found.node}"]
    if found.dry_run:
        return [f"dry run: would {step}" for step in steps] + ["nothing is touched"]
    steps += _fence_steps(found)
    if found.slot:
        steps.append(f"wait for {found.slot}")
    if found.veto:
        return [*steps, f"wait for {found.veto}"]
    if found.spare is None:
        return [*steps, f"wait for a spare{f' ({found.spare_why})' if found.spare_why else ''}; nothing is deleted"]
    steps.append(f"claim spare {found.spare}, join it tainted, check it")
    if isinstance(known.pods, tuple):
        others = evictable(known.pods, AGENT_APP_NAME)
        if others:
            limit = known.pool.spec.drain_deadline_seconds if known.pool is not None else 0
            steps.append(f"evict {len(others)} other pods; budgets are honoured for up to {limit} s")
    if found.slurm_node:
        steps.append(f"delete the worker pod of {found.slurm_node} once no job process is left, or the grace is over")
    steps.append(f"admit {found.spare}, quarantine {found.node}'s host")
    return steps


def _fence_steps(found: Preview) -> list[str]:
    down = f"set Slurm node {found.slurm_node} DOWN: its jobs get up to {found.grace_seconds} s to save"
    match FenceKind(found.fence):
        case FenceKind.DOWN:
            return [f"{down} and are requeued ahead of the queue"]
        case FenceKind.REQUEUE:
            return [f"drain Slurm node {found.slurm_node} and requeue its batch jobs with top priority"]
        case FenceKind.DRAIN:
            return [f"drain Slurm node {found.slurm_node} and wait for its jobs to end (the breaker is open)"]
        case _:
            return []
