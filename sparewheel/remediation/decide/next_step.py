"""The whole of the node track: given the record, what is seen and the time, what to do now, or when to look again."""

from __future__ import annotations

from datetime import datetime

from sparewheel.api.faults import Action
from sparewheel.api.names import AGENT_APP_NAME
from sparewheel.api.remediation import FenceKind, NodeStage, Remediation, Trigger
from sparewheel.remediation.decide.anew import about, another_machine, registered_anew
from sparewheel.remediation.decide.breaker import struck_after_all
from sparewheel.remediation.decide.cancel import CallOff, asked_to_cancel, uncordoned
from sparewheel.remediation.decide.drain import deadline_over, evictable, jobs_gate, stuck
from sparewheel.remediation.decide.given_back import wait_for_ranks
from sparewheel.remediation.decide.leaving import others_leave
from sparewheel.remediation.decide.mending import mending_step, removed_step, rung_step
from sparewheel.remediation.decide.node_gone import removed_by_others, taken_by_another
from sparewheel.remediation.decide.node_step import HOLD_SECONDS, NodeAction, NodeStep, Situation, Todo, wait_for
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
from sparewheel.remediation.decide.spare_test import awaits_test
from sparewheel.remediation.decide.treated import on_hold, planned
from sparewheel.remediation.decide.veto import Sight, Verdict, veto_of

VETO_SECONDS = 10.0
CORDON_SECONDS = 5.0
PROOF_SECONDS = 10.0
BACKOFF_SECONDS = 5.0


def next_step(remediation: Remediation, seen: Observations, situation: Situation) -> NodeStep:
    """The node track's next step."""
    if not is_open(remediation):
        return NodeStep(done=True)
    wish = asked_to_cancel(remediation)
    if wish is not None:
        return _called_off(remediation, seen, situation, wish)
    early = _before_the_fence(remediation, seen, situation)
    return early if early is not None else _after_the_fence(remediation, seen, situation)


def _called_off(remediation: Remediation, seen: Observations, situation: Situation, wish: CallOff) -> NodeStep:
    """A rung that is under way, and the ranks that were struck, come to their end first: a node is not given back in
    the middle of a reboot, nor a Slurm node to a job that still runs there."""
    rung = rung_step(remediation, seen, situation, called_off=True)
    if rung is not None:
        return rung
    waits = wait_for_ranks(remediation, seen, situation, wish)
    if waits is not None:
        return waits
    untouched = not started(remediation.status, NodeStage.FENCED)
    return NodeStep((Todo(NodeAction.STAND_DOWN if untouched else NodeAction.CANCEL, call_off=wish),))


def _after_the_fence(remediation: Remediation, seen: Observations, situation: Situation) -> NodeStep:
    if isinstance(seen.node, Unknown):
        return wait_for(f"the API server ({seen.node.error})", BACKOFF_SECONDS)
    if isinstance(seen.node, NodeView) and registered_anew(remediation, seen.node):
        return removed_step(remediation) or NodeStep((Todo(NodeAction.CORDON_ANEW),))
    by_name = not situation.pool.warm_spares  # else whoever comes up on the spare takes over
    if by_name and may_restore(remediation, seen.slurm_node, seen.successors):
        return NodeStep((Todo(NodeAction.RESTORE_SLURM),))
    retired = remediation.status.replacement.quarantined_at is not None
    if not retired and isinstance(seen.node, NodeView) and another_machine(remediation, seen.node):
        return removed_step(remediation) or taken_by_another(remediation, seen)
    if started(remediation.status, NodeStage.REPLACED) and ended(remediation.status, NodeStage.DRAINED):
        return _after_the_drain(remediation, seen.node, situation)
    if isinstance(seen.node, Gone) or not about(remediation, seen.node):
        gone = isinstance(seen.node, Gone)
        return removed_step(remediation) or removed_by_others(remediation, gone=gone)
    return _on_the_node(remediation, seen.node, seen, situation)


def _before_the_fence(remediation: Remediation, seen: Observations, situation: Situation) -> NodeStep | None:
    status = remediation.status
    if ended(status, NodeStage.FENCED):
        return None
    if not ended(status, NodeStage.DETECTED):
        return NodeStep((Todo(NodeAction.OPEN),))
    if remediation.spec.dry_run:
        return NodeStep((Todo(NodeAction.DRY_RUN),))
    if isinstance(seen.node, Unknown):
        return wait_for(f"the API server ({seen.node.error})", BACKOFF_SECONDS)
    if remediation.spec.trigger is Trigger.NODE_REMOVED:
        return _fence_removed(remediation, seen.node, situation)
    if isinstance(seen.node, Gone) or seen.node.uid != remediation.spec.node_uid:
        if not remediation.status.owned.slurm_down:
            return NodeStep((Todo(NodeAction.SUPERSEDE, why="the node was removed or registered anew"),))
        cordoned = isinstance(seen.node, NodeView) and about(remediation, seen.node)
        return _fence(remediation, situation) if cordoned else None  # a fence that was cut off after its strike
    return _fence(remediation, situation)


def _fence_removed(remediation: Remediation, node: NodeView | Gone, situation: Situation) -> NodeStep:
    """There is no Node to cordon; its jobs and its Slurm node are left."""
    if isinstance(node, NodeView) and not started(remediation.status, NodeStage.FENCED):
        return NodeStep((Todo(NodeAction.STAND_DOWN, why="the node came back before anything was done"),))
    return _fence(remediation, situation)


def _fence(remediation: Remediation, situation: Situation) -> NodeStep:
    if not started(remediation.status, NodeStage.FENCED):
        if situation.fault_open is None:
            return wait_for("a fresh report of the node", 0.5)
        if not situation.fault_open:
            return NodeStep((Todo(NodeAction.STAND_DOWN, why="the fault was gone before anything was done"),))
        if situation.pool.paused:
            return wait_for(f"pool {remediation.spec.pool}, which is paused", BACKOFF_SECONDS)
    return NodeStep((Todo(NodeAction.FENCE),))


def _on_the_node(remediation: Remediation, node: NodeView, seen: Observations, situation: Situation) -> NodeStep:
    status = remediation.status
    if status.ladder.mended_at is not None:
        return NodeStep((Todo(NodeAction.RECOVER, why=status.ladder.why),))
    if status.recovered_at is not None and planned(remediation) not in HEALING:
        return NodeStep((Todo(NodeAction.RECOVER, why=status.recovered_why),))
    called_off = uncordoned(remediation, node)
    if called_off is not None:
        return _called_off(remediation, seen, situation, called_off)
    other = rung_step(remediation, seen, situation) or _other_than_replace(remediation, node, seen, situation)
    if other is not None:
        return other
    veto = veto_of(remediation, Sight(seen.pods, node, situation.pool, situation.now, situation.veto))
    if veto.reason:
        return _held(remediation, veto)
    if _vetoed(remediation):
        return NodeStep((Todo(NodeAction.VETO_OVER),))
    return _beyond_the_veto(remediation, node, seen, situation, veto)


def _beyond_the_veto(
    remediation: Remediation, node: NodeView, seen: Observations, situation: Situation, veto: Verdict
) -> NodeStep:
    status = remediation.status
    mending = mending_step(remediation, node, seen, situation, vetoing=bool(veto.set_aside))
    if mending is not None:
        return mending
    if not started(status, NodeStage.DRAINED):
        return NodeStep((Todo(NodeAction.BEGIN_DRAIN),))
    if ended(status, NodeStage.DRAINED):
        return wait_for(status.replacement.message or "the spare to be claimed and checked")
    assert not isinstance(seen.pods, Unknown)  # noqa: S101 - an Unknown is a veto above
    return _drain_pods(remediation, node, seen.pods, seen, situation, vetoing=bool(veto.set_aside))


def _held(remediation: Remediation, veto: Verdict) -> NodeStep:
    todo = () if _vetoed(remediation) else (Todo(NodeAction.VETO, why=veto.reason),)
    if veto.overdue and remediation.status.veto_escalated_at is None:
        todo = (*todo, Todo(NodeAction.VETO_OVERDUE, why=veto.reason))
    return NodeStep(todo, veto.reason, VETO_SECONDS)


def _other_than_replace(
    remediation: Remediation, node: NodeView, seen: Observations, situation: Situation
) -> NodeStep | None:
    if remediation.status.fence in _NODE_STAYS:
        return _node_stays(remediation, node, seen)
    if on_hold(remediation):
        return NodeStep((Todo(NodeAction.HOLD),), f"a person: {remediation.spec.hold}", HOLD_SECONDS)
    if struck_after_all(remediation, situation.breaker):
        return NodeStep((Todo(NodeAction.FENCE_AGAIN),))
    return None


_NODE_STAYS = frozenset({FenceKind.JOBS, FenceKind.CORDON})


def _node_stays(remediation: Remediation, node: NodeView, seen: Observations) -> NodeStep:
    """Only its jobs are requeued, or it is cordoned and nothing more, until a fault asks for more."""
    action, status = planned(remediation), remediation.status
    if status.fence is FenceKind.JOBS:
        coming = [job for job in status.jobs if not job.closed and not job.not_requeued_reason]
        waits = [str(job.job_id) for job in coming if job.requeued_at is None]
        if waits and action is Action.RESTART_JOB:
            return wait_for(f"job {', '.join(waits)} to be requeued")
        return NodeStep((Todo(NodeAction.JOBS_DONE),))
    if action in HEALING:
        return NodeStep((Todo(NodeAction.FENCE_AGAIN),))
    ill = not_well(remediation, node, seen.health)
    if not ill:
        return NodeStep((Todo(NodeAction.RECOVER, why="the fault is gone"),))
    return wait_for(f"a person or a recovery (cordon only): {ill}", CORDON_SECONDS)


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
    gate = jobs_gate(remediation, health, slurm, situation.now, seen.fenced_seconds_ago)
    if status.replacement.claimed_at is None:
        early = _proof_of_lost_host(remediation)
        return NodeStep(early, status.replacement.message or ("a spare" if gate.open else gate.why))
    todo: list[Todo] = []
    waits: list[str] = []
    for pod in workers:
        _worker(remediation, node, pod, gate.why if not gate.open else "", situation.now, todo, waits)
    over = deadline_over(remediation, situation.pool.drain_deadline_seconds, situation.now)
    leaving = others_leave(others, node, situation.now, over=over)
    if not workers and not leaving.still_there and gate.open:
        return NodeStep((Todo(NodeAction.DRAINED, why=gate.why),))
    waits.extend(leaving.waits)
    if not workers and not gate.open:
        waits.append(gate.why)
    return NodeStep((*todo, *leaving.todo), waits[0] if waits else "", gate.look_again_seconds)


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


def _after_the_drain(remediation: Remediation, node: NodeView | Gone, situation: Situation) -> NodeStep:
    record = remediation.status.replacement
    if record.admitted_at is None or awaits_test(remediation, situation.pool):
        return wait_for(record.message or "the spare to pass its checks")
    if record.quarantined_at is None:
        same = isinstance(node, NodeView) and node.uid == remediation.spec.node_uid
        return NodeStep((Todo(NodeAction.RETIRE, why="" if same else "the node is gone already"),))
    if remediation.status.owned.slurm_down and not remediation.status.owned.foreign_reason:
        return wait_for("the new worker pod's slurmd to register", 0.5)
    return NodeStep((Todo(NodeAction.CLOSE),))
