"""Stage closed: what is owned is given back, the end is written, and the end is told."""

from __future__ import annotations

from sparewheel.api.faults import Action
from sparewheel.api.names import (
    ANNOTATION_NODE_ACTION,
    ANNOTATION_OWNED,
    ANNOTATION_REMEDIATION,
    ANNOTATION_REPLACE_REQUEST,
    SLINKY_NODE_CORDON_REASON,
    TAINT_FAULT,
)
from sparewheel.api.node_action import to_annotation
from sparewheel.api.remediation import NodeStage, Outcome, Trigger
from sparewheel.capacity.claims import ON_THE_WAY, owner_of
from sparewheel.kube.port import NODE, ConflictError, Json, NotFoundError
from sparewheel.remediation.decide.cancel import CallOff, called_off
from sparewheel.remediation.decide.deliveries import enqueue
from sparewheel.remediation.decide.events import EVENT_CLOSED, EVENT_WAITING
from sparewheel.remediation.decide.ladder import request_of
from sparewheel.remediation.decide.marks import mark_of, marked
from sparewheel.remediation.decide.observations import NodeView
from sparewheel.remediation.decide.record import close, drop_spare, ended, recovered, started
from sparewheel.remediation.decide.rung_words import rungs_ahead
from sparewheel.remediation.decide.sentences import cordon_reason
from sparewheel.remediation.stages import detected, slurm_return, survivors, takeover
from sparewheel.remediation.stages.incident import Incident, PreconditionError, log
from sparewheel.remediation.stages.views import node_view

EVENT_LEFT = f"{EVENT_WAITING}/processes"
_TRIES = 8
_LIGHT = {
    Action.RESTART_JOB: "requeued the jobs that the fault hit and left the node in service",
    Action.CORDON: "cordoned and tainted the node, and left it for a person",
}


async def precondition(incident: Incident) -> str:
    """Empty when the incident has healed."""
    status = incident.record.status
    if status.replacement.quarantined_at is None:
        return "the bad host is not retired yet"
    if status.owned.slurm_down and not status.owned.foreign_reason:
        return "the Slurm node is not back yet"
    return ""


async def is_done(incident: Incident) -> bool:
    return ended(incident.record.status, NodeStage.CLOSED)


async def act(incident: Incident) -> bool:
    """Healed."""
    refused = await precondition(incident)
    if refused:
        raise PreconditionError(f"{incident.name} can't be closed: {refused}")
    record = incident.record.status.replacement
    seconds = max(0.0, (incident.now() - incident.record.spec.fault.first_seen).total_seconds())
    since = await takeover.taken_since(incident) if (await incident.pool()).spec.warm_spares else ""
    message = f"Host {record.bad_host} is quarantined and {record.spare_host}"
    message += f"{' served' if since else ' serves'} in its place ({seconds:.0f} s after the fault)"
    message += f" until {since}." if since else "."
    if record.spare_slurm_node is not None and record.spare_slurm_node != incident.record.spec.slurm_node:
        message += f" Slurm node {record.spare_slurm_node} took the place of {incident.record.spec.slurm_node}."
    if incident.record.status.ladder.why:
        message += f" Before that: {incident.record.status.ladder.why}."
    return await _end(incident, Outcome.HEALED, message + _left_so(incident))


def _left_so(incident: Incident) -> str:
    foreign = incident.record.status.owned.foreign_reason
    name = incident.record.spec.slurm_node
    return f" Slurm node {name} is out of service for another reason ({foreign}): left so." if foreign else ""


async def recover(incident: Incident, why: str) -> bool:
    """The node is well again and serves on: give back the strike and the marks that are ours, nothing else.

    Journalled first: whoever goes on finds the cordon gone, and must not take that for a person's word.
    """
    if incident.record.status.ladder.mended_at is None:
        await incident.update(recovered(why, incident.now()))
    await slurm_return.resume_same_instance(incident)
    await _unmark_node(incident)
    spare = " No spare was used." if incident.record.status.ladder.mended_at is not None else ""
    message = f"Node {incident.record.spec.node} is in service again: {why}.{spare}{_left_so(incident)}"
    return await _end_without_spare(incident, Outcome.HEALED, message)


async def jobs_done(incident: Incident) -> bool:
    """The fault asked for its jobs alone."""
    jobs = incident.record.status.jobs
    again = ", ".join(str(job.job_id) for job in jobs if not job.not_requeued_reason)
    words = [f"Requeued job {again}" if again else "No job was requeued" if jobs else "No job ran there"]
    words += [f"job {job.job_id} was not ({job.not_requeued_reason})" for job in jobs if job.not_requeued_reason]
    words.append(f"node {incident.record.spec.node} stays in service.")
    return await _end(incident, Outcome.HEALED, "; ".join(words))


async def dry_run(incident: Incident) -> bool:
    """Say what would have been done; touch nothing."""
    spec = incident.record.spec
    if spec.detect_only:
        message = f"Detected only: {spec.policy} says that nothing is done about {spec.fault.code}."
        return await _end(incident, Outcome.DETECTED_ONLY, message)
    if spec.fault.action in _LIGHT:
        return await _end(incident, Outcome.DRY_RUN, f"Dry run: would have {_LIGHT[spec.fault.action]}.")
    slurm = f", set Slurm node {spec.slurm_node} DOWN and let its batch jobs be requeued" if spec.slurm_node else ""
    rungs = rungs_ahead(incident.record)
    tried = f"asked for a {rungs}, and if nothing helped " if rungs else ""
    message = (
        f"Dry run: would have cordoned and tainted node {spec.node}{slurm}, given jobs {spec.grace_seconds} s, "
        f"{tried}deleted the worker pod, claimed a spare of pool {spec.pool} and quarantined the host."
    )
    return await _end(incident, Outcome.DRY_RUN, message)


async def stand_down(incident: Incident, why: str) -> bool:
    """Nothing needs to be done; nothing was, but for a cordon of a controller that died before the record said so."""
    await _unmark_node(incident)
    return await _end(incident, Outcome.CANCELLED, f"Called off: {why}.")


async def supersede(incident: Incident, why: str) -> bool:
    """The node is gone without us: a spare that hasn't been admitted is free, one that has serves on."""
    if incident.record.status.replacement.admitted_at is not None:
        incident.lead()
        await incident.ports.replacer.settle(await incident.pool(), incident.owner)
    return await _end_without_spare(incident, Outcome.SUPERSEDED, f"Superseded: {why}.")


async def abandon(incident: Incident, why: str) -> bool:
    """What the incident belongs to is gone, and its capacity with it: there is nothing to give back."""
    return await _end(incident, Outcome.SUPERSEDED, f"Superseded: {why}.")


async def call_off(incident: Incident, wish: CallOff) -> bool:
    """A person took the node back: undo what is ours and not yet done, nothing else. Its ranks have ended."""
    if started(incident.record.status, NodeStage.FENCED):
        await slurm_return.resume_same_instance(incident)
        await _release_spare(incident)
    await _unmark_node(incident)
    message = f"Cancelled {wish.words.rstrip('.')}."
    return await _end_without_spare(incident, Outcome.CANCELLED, message, wish.by)


async def let_go(incident: Incident, wish: CallOff) -> bool:
    """Called off, and job processes are waited for first: from here on it ends so, and its spare is free at once."""
    await incident.update(called_off(wish.by, wish.why))
    if not incident.record.status.cancelled_by:
        return True  # it came too late
    host = incident.record.status.replacement.spare_host
    await _release_spare(incident)
    if host is None:
        return True
    return await incident.update(drop_spare(host, refused=False, message=""))


async def tell_left(incident: Incident) -> bool:
    """Once: a person may end what the strike and the grace did not."""
    await incident.tell(EVENT_LEFT)
    return False


async def _end_without_spare(incident: Incident, outcome: Outcome, message: str, cancelled_by: str = "") -> bool:
    """The search for a spare goes on beside this: what it claimed since the release is let go too."""
    while True:
        await _release_spare(incident)
        async with incident.hold_lock:
            await survivors.drop(incident)  # asks Slurm: before the lock that other strikes' claims wait for
        async with incident.ports.claim_lock:
            if not await _on_the_way(incident):
                return await _end(incident, outcome, message, cancelled_by)


async def _release_spare(incident: Incident) -> None:
    """Also one that was claimed by a controller that ended before it could write that into the record."""
    record = incident.record.status.replacement
    if record.admitted_at is not None:
        return
    if record.spare_host is not None:
        await takeover.put_back(incident)
    for host in await _on_the_way(incident):
        incident.lead()
        await incident.ports.replacer.give_up(
            await incident.pool(), host, incident.owner, "not needed", quarantine=False
        )


async def _on_the_way(incident: Incident) -> list[str]:
    """Hosts that the incident has claimed and not admitted, whether it wrote that down or not."""
    if (
        not started(incident.record.status, NodeStage.FENCED)
        or incident.record.status.replacement.admitted_at is not None
    ):
        return []
    hosts = await incident.ports.replacer.pool_hosts(await incident.pool())
    return [one.spec.host for one in hosts if owner_of(one) == incident.owner and one.status.phase in ON_THE_WAY]


async def _unmark_node(incident: Incident) -> None:
    """Taint, annotations, and the cordon where it is ours, in one compare-and-swap."""
    kube, spec = incident.ports.kube, incident.record.spec
    for _ in range(_TRIES):
        try:
            body = await kube.get(NODE, spec.node)
        except NotFoundError:
            return
        node = node_view(body)
        if not (marked(incident.record, node) or _wished(incident, node)):
            return
        incident.lead()
        try:
            await kube.merge_patch(NODE, spec.node, _unmark_patch(incident, body))
        except ConflictError:
            continue
        return
    log.warning("%s: Node %s is written by others all the time; its marks stay", incident.name, spec.node)


def _wished(incident: Incident, node: NodeView) -> bool:
    """Does the node still carry the wish that this incident was opened for?"""
    spec = incident.record.spec
    wish = node.annotations.get(ANNOTATION_REPLACE_REQUEST, "")
    same = node.uid == spec.node_uid
    return same and spec.trigger is Trigger.MANUAL and bool(wish) and wish[:200] == spec.fault.message


def _unmark_patch(incident: Incident, body: Json) -> Json:
    annotations: Json = {}
    node = node_view(body)
    if _wished(incident, node):
        annotations[ANNOTATION_REPLACE_REQUEST] = None
    if not marked(incident.record, node):
        return {"metadata": {"resourceVersion": body["metadata"]["resourceVersion"], "annotations": annotations}}
    annotations[ANNOTATION_REMEDIATION] = annotations[ANNOTATION_OWNED] = None
    present: Json = body["metadata"].get("annotations") or {}
    if present.get(SLINKY_NODE_CORDON_REASON) == cordon_reason(incident.record):
        annotations[SLINKY_NODE_CORDON_REASON] = None
    if present.get(ANNOTATION_NODE_ACTION) in _requests(incident):
        annotations[ANNOTATION_NODE_ACTION] = None
    taints: list[Json] = body["spec"].get("taints") or []
    ours = mark_of(incident.record, node)
    kept = [taint for taint in taints if not (ours.fault_taint and taint["key"] == TAINT_FAULT)]
    spec: Json = {"taints": kept}
    if ours.cordon:
        spec["unschedulable"] = False
    metadata = {"resourceVersion": body["metadata"]["resourceVersion"], "annotations": annotations}
    return {"metadata": metadata, "spec": spec}


def _requests(incident: Incident) -> set[str]:
    """What this incident has asked the node's helper for."""
    return {to_annotation(request_of(rung)) for rung in incident.record.status.ladder.rungs}


async def _end(incident: Incident, outcome: Outcome, message: str, cancelled_by: str = "") -> bool:
    if not await detected.is_done(incident):
        await detected.act(incident)  # called off before its first lines: it has a begin to tell all the same
    now = incident.now()
    routes = await incident.routes(EVENT_CLOSED, outcome=outcome)
    ended_now = close(outcome, now, message, cancelled_by)
    async with incident.hold_lock:
        await survivors.drop(incident)
        return await incident.update(ended_now, enqueue(incident.name, EVENT_CLOSED, routes, now))
