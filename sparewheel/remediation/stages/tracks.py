"""One pass over a track of an incident: look, decide, act. Each returns when to look again; None ends the track."""

from __future__ import annotations

from datetime import timedelta

from sparewheel.api.ladder import RungRecord
from sparewheel.api.remediation import FenceKind, NodeStage
from sparewheel.kube.port import NotFoundError
from sparewheel.remediation.decide.budget import FleetLimits
from sparewheel.remediation.decide.cancel import asked_to_cancel
from sparewheel.remediation.decide.next_step import next_step
from sparewheel.remediation.decide.node_step import NodeAction, Situation, Todo
from sparewheel.remediation.decide.observations import Observations
from sparewheel.remediation.decide.record import ended, is_open, waiting
from sparewheel.remediation.decide.spares import SpareAction, next_spare_step
from sparewheel.remediation.stages import (
    closed,
    detected,
    drained,
    fenced,
    mended,
    replaced,
    slurm_return,
    takeover,
    vetoed,
)
from sparewheel.remediation.stages import jobs as job_track
from sparewheel.remediation.stages.incident import Incident

AT_ONCE = 0.0
RETURN_SECONDS = 0.3


async def node_pass(incident: Incident, *, fault_open: bool | None = True) -> float | None:
    """The node track: at most one step of each kind, then look again."""
    await incident.journal.make_certain()
    seen = await observe(incident)
    try:
        pool = await incident.pool()
    except NotFoundError:
        await closed.abandon(incident, f"pool {incident.record.spec.pool} was deleted")
        return None
    rule, breaker = (await incident.ports.fleet.policy()).veto, incident.ports.fleet.breaker()
    step = next_step(incident.record, seen, Situation(pool.spec, incident.now(), rule, fault_open, breaker))
    if step.done:
        await incident.journal.flush()
        return None
    look_at = incident.now() + timedelta(seconds=step.look_again_seconds)
    words = incident.unmet or step.waiting_for
    if words or not step.todo:
        await incident.update(waiting(words, look_at))
    moved = False
    for todo in step.todo:
        moved = await _do(incident, todo) or moved
    return AT_ONCE if moved else step.look_again_seconds


async def observe(incident: Incident) -> Observations:
    """Everything read afresh, except the agent's report, which is dated by when it was heard."""
    status = incident.record.status
    fenced_now = ended(status, NodeStage.FENCED)
    now = incident.ports.clock.monotonic_seconds()
    cut_off = bool(status.owned.slurm_down) and asked_to_cancel(incident.record) is not None  # in the middle of it
    looks = fenced_now or cut_off
    if looks and incident.fenced_monotonic is None:
        incident.fenced_monotonic = now
    if not looks or incident.fenced_monotonic is None:
        return Observations(node=incident.known_node() or await incident.see_node())
    owned, node = bool(status.owned.slurm_down), await incident.see_node()
    runs_on = status.fence is FenceKind.DRAIN and not ended(status, NodeStage.DRAINED)  # whoever owns it by now
    return Observations(
        node=node,
        pods=await incident.see_pods(),
        successors=await slurm_return.see_successors(incident, node) if owned else (),
        slurm_node=await slurm_return.see_slurm_node(incident) if owned or runs_on else None,
        health=mended.see_health(incident),
        fenced_seconds_ago=now - incident.fenced_monotonic,
    )


async def _do(incident: Incident, todo: Todo) -> bool:
    whole = {
        NodeAction.DRY_RUN: closed.dry_run,
        NodeAction.OPEN: detected.act,
        NodeAction.FENCE: fenced.act,
        NodeAction.CORDON_ANEW: fenced.cordon_anew,
        NodeAction.FENCE_AGAIN: fenced.again,
        NodeAction.HOLD: fenced.hold,
        NodeAction.JOBS_DONE: closed.jobs_done,
        NodeAction.RESTORE_SLURM: slurm_return.restore,
        NodeAction.VETO: vetoed.act,
        NodeAction.VETO_OVERDUE: vetoed.escalate,
        NodeAction.VETO_OVER: vetoed.lift,
        NodeAction.BEGIN_MENDING: mended.act,
        NodeAction.BEGIN_DRAIN: drained.act,
        NodeAction.RETIRE: replaced.retire,
        NodeAction.TELL_LEFT: closed.tell_left,
        NodeAction.CLOSE: closed.act,
    }
    reasoned = {
        NodeAction.STAND_DOWN: closed.stand_down,
        NodeAction.SUPERSEDE: closed.supersede,
        NodeAction.RECOVER: closed.recover,
        NodeAction.LADDER_OVER: mended.give_up,
        NodeAction.DRAINED: drained.finish,
    }
    if todo.call_off is not None and todo.action is NodeAction.LET_GO:
        return await closed.let_go(incident, todo.call_off)
    if todo.call_off is not None:
        return await closed.call_off(incident, todo.call_off)
    if todo.action in whole:
        return await whole[todo.action](incident)
    if todo.action in reasoned:
        return await reasoned[todo.action](incident, todo.why)
    return await (_do_rung(incident, todo, todo.rung) if todo.rung is not None else _do_pod(incident, todo))


async def _do_rung(incident: Incident, todo: Todo, rung: RungRecord) -> bool:
    if todo.ended is not None:
        end = mended.helped if todo.action is NodeAction.MENDED else mended.finish
        return await end(incident, rung, todo.ended)
    acts = {
        NodeAction.TAKE_RUNG: mended.take,
        NodeAction.ASK_HELPER: mended.ask,
        NodeAction.POWER_CYCLE: mended.power_cycle,
        NodeAction.WITHDRAW: mended.withdraw,
    }
    return await acts[todo.action](incident, rung)


async def _do_pod(incident: Incident, todo: Todo) -> bool:
    if todo.action is NodeAction.PROVE_OFF:
        return await drained.prove_off(incident, power_off=todo.pod is not None)
    pod = todo.pod
    assert pod is not None  # noqa: S101 - the actions left are all about one pod
    acts = {
        NodeAction.DELETE_WORKER: drained.delete_worker,
        NodeAction.EVICT: drained.evict,
        NodeAction.DELETE_POD: drained.delete_pod,
        NodeAction.FORCE_DELETE: drained.force_delete,
    }
    return await acts[todo.action](incident, pod)


async def spare_pass(incident: Incident) -> float | None:
    """The search for a spare, beside the grace."""
    try:
        pool = await incident.pool()
    except NotFoundError:
        return None  # the node track ends the incident
    await takeover.remember(incident)
    veto = (await incident.see_veto()).reason if ended(incident.record.status, NodeStage.FENCED) else ""
    incidents = await incident.ports.fleet.incidents()
    fleet = FleetLimits((await incident.ports.fleet.policy()).budget, incident.ports.fleet.gpu_nodes())
    another = await replaced.another_free(incident)
    step = next_spare_step(incident.record, pool.spec, veto, incidents, incident.now(), fleet, another_free=another)
    if step.done:
        return await (_took_over(incident) if pool.spec.warm_spares else _slurm_back(incident))
    acts = {
        SpareAction.CLAIM: replaced.act,
        SpareAction.JOIN: replaced.join,
        SpareAction.CHECK: replaced.check,
        SpareAction.ADMIT: replaced.admit,
    }
    if step.action is SpareAction.NONE:
        if step.message:
            await replaced.say(incident, step.message)
        return step.look_again_seconds
    held_up = await incident.ports.drive(incident.record.spec.pool)
    if held_up:
        await replaced.say(incident, held_up)
        return 1.0
    let_go = {SpareAction.GIVE_UP: replaced.give_up, SpareAction.TRY_ANOTHER: replaced.pass_over}
    if step.action in let_go:
        return AT_ONCE if await let_go[step.action](incident, step.message) else step.look_again_seconds
    moved = await acts[step.action](incident)
    return AT_ONCE if moved else _pause(step.action)


async def _slurm_back(incident: Incident) -> float | None:
    """The spare serves; the job waits for its Slurm node only. Beside the node track, which takes the bad host out."""
    status = incident.record.status
    owned = is_open(incident.record) and status.owned.slurm_down and not status.owned.foreign_reason
    if not owned or status.replacement.admitted_at is None:
        return None
    return AT_ONCE if await slurm_return.restore(incident) else RETURN_SECONDS


async def _took_over(incident: Incident) -> float | None:
    """As ``_slurm_back``, in a pool with warm spares: the worker on the spare serves, whatever its name."""
    status = incident.record.status
    if not is_open(incident.record) or status.replacement.admitted_at is None or not _needs_slurm(incident):
        return None
    return AT_ONCE if await takeover.finish(incident) else RETURN_SECONDS


def _needs_slurm(incident: Incident) -> bool:
    return incident.record.spec.slurm_node is not None and incident.record.status.replacement.slurm_restored_at is None


def _pause(action: SpareAction) -> float:
    return 10.0 if action is SpareAction.CLAIM else 0.5


async def jobs_pass(incident: Incident) -> float | None:
    """The job track."""
    if await job_track.precondition(incident):
        return 0.5
    if await job_track.is_done(incident):
        return None
    return await job_track.act(incident) or None
