"""Stage fenced: no new work on the node, and Slurm ends and requeues the jobs that it has."""

from __future__ import annotations

import re

from sparewheel.api.faults import Action
from sparewheel.api.names import (
    ANNOTATION_OWNED,
    ANNOTATION_REMEDIATION,
    SLINKY_NODE_CORDON_REASON,
    TAINT_FAULT,
)
from sparewheel.api.remediation import FenceKind, NodeStage, RemediationStatus, Trigger
from sparewheel.api.remediation_policy import RemediationPolicyStatus
from sparewheel.kube.pace import URGENCY, Urgency
from sparewheel.kube.port import NODE, ConflictError, Json
from sparewheel.remediation.decide.anew import about
from sparewheel.remediation.decide.breaker import one_too_many, opened, opening_event
from sparewheel.remediation.decide.events import EVENT_HELD, EVENT_WORSE
from sparewheel.remediation.decide.fence_record import fence_again, fence_decided, own_slurm
from sparewheel.remediation.decide.job_records import list_jobs, put_job
from sparewheel.remediation.decide.jobs import only_hit, struck, victims
from sparewheel.remediation.decide.marks import Mark, mark_to_write, marked, owned
from sparewheel.remediation.decide.observations import SlurmNodeView, Unknown
from sparewheel.remediation.decide.record import Change, begin, chain, end, ended, remark, started
from sparewheel.remediation.decide.sentences import cordon_reason, fault_words
from sparewheel.remediation.decide.slurm_return import foreign, names_incident, slurm_reason
from sparewheel.remediation.decide.treated import planned
from sparewheel.remediation.stages import healer, slurm_return, survivors, takeover
from sparewheel.remediation.stages import jobs as job_track
from sparewheel.remediation.stages.incident import Incident, PreconditionError, log
from sparewheel.remediation.stages.views import job_view, node_view, slurm_node_view
from sparewheel.slurm.port import SlurmNotFoundError

EXPEDITED_SINCE = (25, 11)
"""First Slurm release with expedited requeue."""
_LIGHT = {Action.CORDON: FenceKind.CORDON, Action.RESTART_JOB: FenceKind.JOBS}
_TRIES = 8


async def precondition(incident: Incident) -> str:
    """Empty when the node may be fenced."""
    if not ended(incident.record.status, NodeStage.DETECTED):
        return "it is not recorded yet"
    return "this is a dry run" if incident.record.spec.dry_run else ""


async def is_done(incident: Incident) -> bool:
    return ended(incident.record.status, NodeStage.FENCED)


async def act(incident: Incident) -> bool:
    """Cordon, then strike. The cordon is its own journal, the strike is journalled before; each is safe to do again."""
    refused = await precondition(incident)
    if refused:
        raise PreconditionError(f"{incident.name} may not be fenced: {refused}")
    action, fence = planned(incident.record), incident.record.status.fence
    jobs_alone = fence is FenceKind.JOBS or (fence is FenceKind.UNDECIDED and action is Action.RESTART_JOB)
    if not jobs_alone and not started(incident.record.status, NodeStage.FENCED):
        await healer.refuse_anothers(incident)
    incident.stage(begin(NodeStage.FENCED, incident.now()))
    if not jobs_alone and incident.record.spec.trigger is not Trigger.NODE_REMOVED:
        await cordon(incident)
    match await _decide(incident, action):
        case FenceKind.NONE | FenceKind.CORDON:
            incident.stage(list_jobs([], incident.now()))
        case FenceKind.JOBS:
            await _list(incident, incident.record.spec.slurm_node)
            incident.stage(_jobs_struck(incident))
        case _:
            await _strike(incident)
    incident.fenced_monotonic = incident.ports.clock.monotonic_seconds()
    URGENCY.set(Urgency.NORMAL)  # its jobs compute for nothing no longer: other nodes' fences go before the rest of it
    await incident.update(end(NodeStage.FENCED, incident.now()))
    return True


async def hold(incident: Incident) -> bool:
    """Nothing more is done: a person is called, once."""
    await incident.tell(EVENT_HELD)
    return False


async def again(incident: Incident) -> bool:
    """More is to be done than the cordon, or than the drain under an open breaker: the next look strikes."""
    if incident.record.status.fence is FenceKind.CORDON:
        await incident.tell(EVENT_WORSE)
    await incident.update(fence_again(incident.now()))
    return True


# -------------------------------------------------------------------- Kubernetes
async def cordon_anew(incident: Incident) -> bool:
    """The same host under another uid: nothing new may run on it either."""
    await cordon(incident, anew=True)
    await incident.update()
    return True


async def cordon(incident: Incident, *, anew: bool = False) -> None:
    """Cordon, reason, taint and our mark in one compare-and-swap; the record takes it over with its next update.

    ``anew``: the Node may have another uid by now.
    """
    kube, spec = incident.ports.kube, incident.record.spec
    known = None if incident.record.status.owned.cordon else incident.ports.fleet.node_body(spec.node)
    for _ in range(_TRIES):
        body, known = known or await kube.get(NODE, spec.node), None
        node = node_view(body)
        if not anew and not about(incident.record, node):
            raise PreconditionError(f"{incident.name}: Node {node.name} is another incarnation now")
        mark, done = mark_to_write(incident.record, node), node.unschedulable and TAINT_FAULT in node.taints
        if not (done and marked(incident.record, node)):
            incident.lead()
            try:
                await kube.merge_patch(NODE, spec.node, _cordon_patch(incident, body, mark))
            except ConflictError:
                continue
        incident.stage(owned(mark))
        return
    raise ConflictError(f"cordon Node {spec.node}: written by others {_TRIES} times in a row")


def _cordon_patch(incident: Incident, body: Json, mark: Mark) -> Json:
    annotations = {ANNOTATION_REMEDIATION: incident.name, ANNOTATION_OWNED: mark.text}
    present: Json = body["metadata"].get("annotations") or {}
    if mark.cordon or SLINKY_NODE_CORDON_REASON not in present:
        annotations[SLINKY_NODE_CORDON_REASON] = cordon_reason(incident.record)
    before: list[Json] = body["spec"].get("taints") or []
    taints = [taint for taint in before if taint["key"] != TAINT_FAULT]
    value = re.sub(r"[^A-Za-z0-9_.-]", "-", incident.record.spec.fault.code)[:63].strip("-_.")
    taints.append({"key": TAINT_FAULT, "value": value, "effect": "NoSchedule"})
    return {
        "metadata": {"resourceVersion": body["metadata"]["resourceVersion"], "annotations": annotations},
        "spec": {"unschedulable": True, "taints": taints},
    }


# -------------------------------------------------------------------- Slurm
async def _decide(incident: Incident, action: Action) -> FenceKind:
    """Which fence; decided one incident at a time, so that the breaker's count is right. Journalled by the strike."""
    kind = incident.record.status.fence
    if kind is not FenceKind.UNDECIDED:
        return kind
    if action in _LIGHT:
        incident.stage(fence_decided(_LIGHT[action], incident.now()))
        return incident.record.status.fence
    if incident.record.spec.slurm_node is None:
        incident.stage(fence_decided(FenceKind.NONE, incident.now()))
        return FenceKind.NONE
    ports, version = incident.ports, parse_version((await incident.ports.looks.ping()).version)
    while incident.record.status.fence is FenceKind.UNDECIDED:
        writes = ports.breaker_writes
        seen = await ports.breaker.get()
        async with ports.fence_lock:
            if ports.breaker_writes != writes:
                continue  # another fence has opened it since
            breaker = await _breaker(incident, seen)
            if breaker.breaker_open:
                incident.stage(fence_decided(FenceKind.DRAIN, incident.now(), breaker.breaker_since))
            else:
                kind = FenceKind.DOWN if version >= EXPEDITED_SINCE else FenceKind.REQUEUE
                incident.stage(fence_decided(kind, incident.now()))
    return incident.record.status.fence


async def _breaker(incident: Incident, status: RemediationPolicyStatus) -> RemediationPolicyStatus:
    """As it was read; opened here when this fence would be one too many, and told once by the incident that was."""
    fleet, now = incident.ports.fleet, incident.now()
    if not status.breaker_open:
        policy, incidents = await fleet.policy(), await fleet.incidents()
        why = one_too_many(incident.name, policy, status, fleet.gpu_nodes(), incidents, now)
        if not why:
            return status
        status = opened(incident.name, why, incidents, now)
        await incident.put_breaker(status)
    if status.tripped_by == incident.name:
        log.error("event=breaker_open incident=%s message=%s", incident.name, status.message)
        await incident.update(remark(f"The breaker is open: {status.message}"))
        await incident.tell(opening_event(status))
    return status


def parse_version(text: str) -> tuple[int, int]:
    """``26.05.5`` or ``slurm 26.05.5`` to (26, 5). Unknown is read as old: the old way works on every version."""
    match = re.search(r"(\d{2})\.(\d{2})", text)
    return (int(match[1]), int(match[2])) if match else (0, 0)


async def _strike(incident: Incident) -> None:
    name = incident.record.spec.slurm_node
    assert name is not None  # noqa: S101 - FenceKind.NONE otherwise
    slurm = incident.ports.slurm
    try:
        node = slurm_node_view(await slurm.node(name))
    except SlurmNotFoundError:
        incident.stage(list_jobs([], incident.now()), _nothing_to_strike(incident))
        return
    nodes_of = await _list(incident, name)
    if not await _serves_elsewhere(incident):
        await survivors.begin(incident, nodes_of)
    if not await _serves_elsewhere(incident) and not _struck_already(incident, node):  # the hold may have taken seconds
        await incident.update(own_slurm(name, incident.now(), node.slurmd_start_time, foreign(node)))
        incident.lead()
        state = "DOWN" if incident.record.status.fence is FenceKind.DOWN else "DRAIN"
        reason = slurm_reason(incident.name, fault_words(incident.record.spec.fault)[:120])
        await slurm.set_node_state(name, [state], reason)
    await takeover.claim(incident)  # while the jobs save
    if incident.record.status.fence is not FenceKind.DRAIN:
        await _list(incident, name)  # a job that started between the list and the strike
        incident.stage(_jobs_struck(incident))


async def _list(incident: Incident, name: str | None) -> dict[int, frozenset[str]]:
    """Write down the victims, before the strike makes them hard to find; the Slurm nodes that each has, or had."""
    spec = incident.record.spec
    if name is None:
        incident.stage(list_jobs([], incident.now()))
        return {}
    places = incident.places()
    listed = await incident.ports.slurm.jobs()
    window = (await incident.ports.fleet.policy()).crashed_job_window_seconds
    now = incident.now()
    seen = min(spec.fault.first_seen, now)
    within = (now - seen).total_seconds() + window
    written = {job.job_id: frozenset(job.slurm_nodes) for job in spec.jobs_seen}
    remembered = {**written, **incident.ports.fleet.remembered_jobs(spec.node, name, within)}
    jobs = [job_view(job, places) for job in job_track.near(listed, name, remembered)]
    if await _serves_elsewhere(incident):  # what runs there now was never on the removed node
        running = [job for job in jobs if job.running and not job.pending]
        others = [job for job in jobs if job not in running]
        found = victims(others, name, remembered, seen, window, places)
        found += victims(running, "", remembered, seen, window, places)
    else:
        found = victims(jobs, name, remembered, seen, window, places)
    found = only_hit(found, incident.record)
    incident.stage(list_jobs(found, now))
    nodes = {job.job_id: job.nodes for job in jobs}
    return {job.job_id: nodes[job.job_id] or remembered.get(job.job_id, frozenset()) for job in found}


async def _serves_elsewhere(incident: Incident) -> bool:
    """The removed node's worker was made again on another: to strike its Slurm node now would end a healthy one's jobs.

    A look-up that fails ends the look.
    """
    if incident.record.spec.trigger is not Trigger.NODE_REMOVED:
        return False
    successors = await slurm_return.see_successors(incident)
    if isinstance(successors, Unknown):
        raise PreconditionError(f"{incident.name} waits for the look-up of worker pods ({successors.error})")
    return bool(successors)


def _struck_already(incident: Incident, node: SlurmNodeView) -> bool:
    owned = incident.record.status.owned
    states = {"DOWN"} if incident.record.status.fence is FenceKind.DOWN else {"DOWN", "DRAIN"}
    return node.name in owned.slurm_down and names_incident(node.reason, incident.name) and bool(node.states & states)


def _jobs_struck(incident: Incident) -> Change:
    now = incident.now()
    return chain(*(put_job(struck(job, now)) for job in incident.record.status.jobs))


def _nothing_to_strike(incident: Incident) -> Change:
    """Slurm doesn't know the node, so nothing of Slurm runs there and nothing is owned."""
    now = incident.now()

    def change(status: RemediationStatus) -> RemediationStatus:
        new = status.model_copy(deep=True)
        new.owned.slurm_struck_at = new.owned.slurm_struck_at or now
        return new

    return change
