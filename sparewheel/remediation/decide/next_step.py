"""The whole of the node track: given the record, what is seen and the time, what to do now, or when to look again."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum

from sparewheel.api.faults import Action
from sparewheel.api.gpu_pool import GpuPoolSpec
from sparewheel.api.names import AGENT_APP_NAME
from sparewheel.api.remediation import FenceKind, NodeStage, Remediation, Trigger
from sparewheel.api.remediation_policy import RemediationPolicyStatus, VetoRule
from sparewheel.remediation.decide.breaker import struck_after_all
from sparewheel.remediation.decide.cancel import CallOff, asked_to_cancel, uncordoned
from sparewheel.remediation.decide.drain import deadline_over, evictable, jobs_gate, stuck
from sparewheel.remediation.decide.observations import (
    Gone,
    HealthView,
    NodeView,
    Observations,
    PodView,
    SlurmNodeView,
    Unknown,
)
from sparewheel.remediation.decide.policy import HEALING
from sparewheel.remediation.decide.record import ended, is_open, started
from sparewheel.remediation.decide.recovery import not_well
from sparewheel.remediation.decide.slurm_return import may_restore
from sparewheel.remediation.decide.treated import on_hold, planned
from sparewheel.remediation.decide.veto import Sight, Verdict, veto_of

VETO_SECONDS = 10.0
CORDON_SECONDS = 5.0
HOLD_SECONDS = 10.0
PROOF_SECONDS = 10.0
BACKOFF_SECONDS = 5.0


class NodeAction(StrEnum):
    DRY_RUN = "dry_run"
    OPEN = "open"
    STAND_DOWN = "stand_down"
    """Nothing was done yet and the fault is no longer there."""
    CANCEL = "cancel"
    """A person called it off before anything irreversible was done."""
    SUPERSEDE = "supersede"
    """Somebody else removed the node."""
    FENCE = "fence"
    HOLD = "hold"
    """Repairing is no cure: call a person."""
    FENCE_AGAIN = "fence_again"
    """More is to be done than the cordon, or than the drain under an open breaker."""
    RECOVER = "recover"
    """The node is well again: give back what is ours."""
    JOBS_DONE = "jobs_done"
    """The jobs that the fault hit go their way; the node stayed in service."""
    RESTORE_SLURM = "restore_slurm"
    VETO = "veto"
    VETO_OVERDUE = "veto_overdue"
    VETO_OVER = "veto_over"
    BEGIN_DRAIN = "begin_drain"
    DELETE_WORKER = "delete_worker"
    EVICT = "evict"
    DELETE_POD = "delete_pod"
    PROVE_OFF = "prove_off"
    FORCE_DELETE = "force_delete"
    DRAINED = "drained"
    RETIRE = "retire"
    CLOSE = "close"


@dataclass(frozen=True, slots=True)
class Todo:
    action: NodeAction
    pod: PodView | None = None
    why: str = ""
    call_off: CallOff | None = None


@dataclass(frozen=True, slots=True)
class NodeStep:
    todo: tuple[Todo, ...] = ()
    waiting_for: str = ""
    look_again_seconds: float = 1.0
    done: bool = False


@dataclass(frozen=True, slots=True)
class Situation:
    """What the decision needs beside the record and what is seen."""

    pool: GpuPoolSpec
    now: datetime
    veto: VetoRule = field(default_factory=VetoRule)
    fault_open: bool | None = True
    """None: no report has come in yet since the controller took over."""
    breaker: RemediationPolicyStatus = field(default_factory=RemediationPolicyStatus)


def next_step(remediation: Remediation, seen: Observations, situation: Situation) -> NodeStep:
    """The node track's next step."""
    if not is_open(remediation):
        return NodeStep(done=True)
    wish = asked_to_cancel(remediation)
    if wish is not None:
        untouched = not started(remediation.status, NodeStage.FENCED)
        return NodeStep((Todo(NodeAction.STAND_DOWN if untouched else NodeAction.CANCEL, call_off=wish),))
    early = _before_the_fence(remediation, seen, situation)
    return early if early is not None else _after_the_fence(remediation, seen, situation)


def _after_the_fence(remediation: Remediation, seen: Observations, situation: Situation) -> NodeStep:
    if isinstance(seen.node, Unknown):
        return _waits(f"the API server ({seen.node.error})", BACKOFF_SECONDS)
    by_name = not situation.pool.warm_spares  # else whoever comes up on the spare takes over
    if by_name and may_restore(remediation, seen.slurm_node, seen.successors):
        return NodeStep((Todo(NodeAction.RESTORE_SLURM),))
    if started(remediation.status, NodeStage.REPLACED) and ended(remediation.status, NodeStage.DRAINED):
        return _after_the_drain(remediation, seen.node)
    if isinstance(seen.node, Gone) or seen.node.uid != remediation.spec.node_uid:
        return _removed_by_others(remediation, gone=isinstance(seen.node, Gone))
    return _on_the_node(remediation, seen.node, seen, situation)


def _waits(text: str, seconds: float = 1.0) -> NodeStep:
    return NodeStep(waiting_for=text, look_again_seconds=seconds)


def _before_the_fence(remediation: Remediation, seen: Observations, situation: Situation) -> NodeStep | None:
    status = remediation.status
    if ended(status, NodeStage.FENCED):
        return None
    if not ended(status, NodeStage.DETECTED):
        return NodeStep((Todo(NodeAction.OPEN),))
    if remediation.spec.dry_run:
        return NodeStep((Todo(NodeAction.DRY_RUN),))
    if isinstance(seen.node, Unknown):
        return _waits(f"the API server ({seen.node.error})", BACKOFF_SECONDS)
    if isinstance(seen.node, Gone) or seen.node.uid != remediation.spec.node_uid:
        if remediation.status.owned.slurm_down:
            return None
        return NodeStep((Todo(NodeAction.SUPERSEDE, why="the node was removed or registered anew"),))
    return _fence(remediation, situation)


def _fence(remediation: Remediation, situation: Situation) -> NodeStep:
    if not started(remediation.status, NodeStage.FENCED):
        if situation.fault_open is None:
            return _waits("a fresh report of the node", 0.5)
        if not situation.fault_open:
            return NodeStep((Todo(NodeAction.STAND_DOWN, why="the fault was gone before anything was done"),))
        if situation.pool.paused:
            return _waits(f"pool {remediation.spec.pool}, which is paused", BACKOFF_SECONDS)
    return NodeStep((Todo(NodeAction.FENCE),))


def _removed_by_others(remediation: Remediation, *, gone: bool) -> NodeStep:
    """Its pods are gone with it, but a Slurm node that we struck is still ours to bring back, and the host is bad."""
    if gone and remediation.status.replacement.claimed_at is not None:
        return NodeStep((Todo(NodeAction.DRAINED, why="the node was removed by somebody else"),))
    if remediation.status.owned.slurm_down:
        return _waits("the new worker pod's slurmd to register (the node was removed by somebody else)", 2.0)
    return NodeStep((Todo(NodeAction.SUPERSEDE, why="the node was removed by somebody else"),))


def _on_the_node(remediation: Remediation, node: NodeView, seen: Observations, situation: Situation) -> NodeStep:
    status = remediation.status
    called_off = uncordoned(remediation, node)
    if called_off is not None:
        return NodeStep((Todo(NodeAction.CANCEL, call_off=called_off),))
    other = _other_than_replace(remediation, seen, situation)
    if other is not None:
        return other
    veto = veto_of(remediation, Sight(seen.pods, node, situation.pool, situation.now, situation.veto))
    if veto.reason:
        return _held(remediation, veto)
    if _vetoed(remediation):
        return NodeStep((Todo(NodeAction.VETO_OVER),))
    if not started(status, NodeStage.DRAINED):
        return NodeStep((Todo(NodeAction.BEGIN_DRAIN),))
    if ended(status, NodeStage.DRAINED):
        return _waits(status.replacement.message or "the spare to be claimed and checked")
    assert not isinstance(seen.pods, Unknown)  # noqa: S101 - an Unknown is a veto above
    return _drain_pods(remediation, node, seen.pods, seen, situation, vetoing=bool(veto.set_aside))


def _held(remediation: Remediation, veto: Verdict) -> NodeStep:
    todo = () if _vetoed(remediation) else (Todo(NodeAction.VETO, why=veto.reason),)
    if veto.overdue and remediation.status.veto_escalated_at is None:
        todo = (*todo, Todo(NodeAction.VETO_OVERDUE, why=veto.reason))
    return NodeStep(todo, veto.reason, VETO_SECONDS)


def _other_than_replace(remediation: Remediation, seen: Observations, situation: Situation) -> NodeStep | None:
    if remediation.status.fence in _NODE_STAYS:
        return _node_stays(remediation, seen)
    if on_hold(remediation):
        return NodeStep((Todo(NodeAction.HOLD),), f"a person: {remediation.spec.hold}", HOLD_SECONDS)
    if struck_after_all(remediation, situation.breaker):
        return NodeStep((Todo(NodeAction.FENCE_AGAIN),))
    return None


_NODE_STAYS = frozenset({FenceKind.JOBS, FenceKind.CORDON})


def _node_stays(remediation: Remediation, seen: Observations) -> NodeStep:
    """Only its jobs are requeued, or it is cordoned and nothing more, until a fault asks for more."""
    action, status = planned(remediation), remediation.status
    if status.fence is FenceKind.JOBS:
        waits = [str(job.job_id) for job in status.jobs if not job.closed and job.requeued_at is None]
        if waits and action is Action.RESTART_JOB:
            return _waits(f"job {', '.join(waits)} to be requeued")
        return NodeStep((Todo(NodeAction.JOBS_DONE),))
    if action in HEALING:
        return NodeStep((Todo(NodeAction.FENCE_AGAIN),))
    ill = not_well(remediation, seen.health)
    if not ill:
        return NodeStep((Todo(NodeAction.RECOVER, why="the fault is gone"),))
    return _waits(f"a person or a recovery (cordon only): {ill}", CORDON_SECONDS)


def _vetoed(remediation: Remediation) -> bool:
    return started(remediation.status, NodeStage.VETOED) and not ended(remediation.status, NodeStage.VETOED)


def _drain_pods(
    remediation: Remediation,
    node: NodeView,
    pods: tuple[PodView, ...],
    seen: Observations,
    situation: Situation,
    *,
    vetoing: bool,
) -> NodeStep:
    """The worker first (its job waits for the successor), the others beside it. Nothing goes before a claim."""
    status = remediation.status
    workers = [pod for pod in pods if pod.worker and not pod.finished]
    others = evictable(pods, AGENT_APP_NAME, vetoing=vetoing)
    health = seen.health if isinstance(seen.health, HealthView) else None
    slurm = seen.slurm_node if isinstance(seen.slurm_node, SlurmNodeView) else None
    gate = jobs_gate(remediation, health, slurm, situation.now)
    if status.replacement.claimed_at is None:
        early = _proof_of_lost_host(remediation)
        return NodeStep(early, status.replacement.message or ("a spare" if gate.open else gate.why))
    todo: list[Todo] = []
    waits: list[str] = []
    for pod in workers:
        _worker(remediation, node, pod, gate.why if not gate.open else "", situation.now, todo, waits)
    over = deadline_over(remediation, situation.pool.drain_deadline_seconds, situation.now)
    for pod in others:
        if not pod.deleting:
            todo.append(Todo(NodeAction.DELETE_POD if over else NodeAction.EVICT, pod))
        elif not stuck(pod, node, situation.now):
            waits.append(f"pod {pod.namespace}/{pod.name} to end")
    still_there = workers or any(not (pod.deleting and stuck(pod, node, situation.now)) for pod in others)
    if not still_there and gate.open:
        return NodeStep((Todo(NodeAction.DRAINED, why=gate.why),))
    if not workers and not gate.open:
        waits.append(gate.why)
    return NodeStep(tuple(todo), waits[0] if waits else "", gate.look_again_seconds)


def _worker(
    remediation: Remediation,
    node: NodeView,
    pod: PodView,
    gate_waits_for: str,
    now: datetime,
    todo: list[Todo],
    waits: list[str],
) -> None:
    if not pod.deleting:
        if gate_waits_for:
            waits.append(gate_waits_for)
            todo.extend(_proof_of_lost_host(remediation))
        else:
            todo.append(Todo(NodeAction.DELETE_WORKER, pod))
        return
    proven = remediation.status.replacement.proven_off_at is not None
    if proven and not gate_waits_for:
        todo.append(Todo(NodeAction.FORCE_DELETE, pod))  # nothing runs there that its grace could serve
    elif node.ready is True and not stuck(pod, node, now):
        waits.append(f"worker pod {pod.namespace}/{pod.name} to end")
    elif gate_waits_for:
        waits.append(gate_waits_for)
    else:
        todo.append(Todo(NodeAction.PROVE_OFF, pod))
        waits.append(f"proof that host {remediation.status.replacement.bad_host or node.name} is off")


def _proof_of_lost_host(remediation: Remediation) -> tuple[Todo, ...]:
    """A lost host may be off already, and then nothing on it needs a grace. Asked without switching anything."""
    if remediation.spec.trigger is not Trigger.NODE_LOST or remediation.status.replacement.proven_off_at is not None:
        return ()
    return (Todo(NodeAction.PROVE_OFF),)


def _after_the_drain(remediation: Remediation, node: NodeView | Gone) -> NodeStep:
    record = remediation.status.replacement
    if record.admitted_at is None:
        return _waits(record.message or "the spare to pass its checks")
    if record.quarantined_at is None:
        same = isinstance(node, NodeView) and node.uid == remediation.spec.node_uid
        return NodeStep((Todo(NodeAction.RETIRE, why="" if same else "the node is gone already"),))
    if remediation.status.owned.slurm_down and not remediation.status.owned.foreign_reason:
        return _waits("the new worker pod's slurmd to register", 0.5)
    return NodeStep((Todo(NodeAction.CLOSE),))
