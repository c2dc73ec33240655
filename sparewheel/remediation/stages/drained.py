"""Stage drained: the struck node's pods go, the worker first. Force only after the host is proven off."""

from __future__ import annotations

from sparewheel.api.remediation import NodeStage, ReplacementRecord
from sparewheel.capacity.port import CapacityError, Proof
from sparewheel.kube.port import POD, ConflictError, NotFoundError, TooManyRequestsError
from sparewheel.remediation.decide.events import EVENT_WAITING
from sparewheel.remediation.decide.ladder import stays_first
from sparewheel.remediation.decide.observations import PodView
from sparewheel.remediation.decide.record import begin_once, end, ended, replacement
from sparewheel.remediation.stages.incident import Incident, PreconditionError, log

EVENT_PROOF = f"{EVENT_WAITING}/proof"
PROOF_EVERY_SECONDS = 10.0


async def precondition(incident: Incident) -> str:
    return "" if ended(incident.record.status, NodeStage.FENCED) else "the node is not fenced yet"


async def is_done(incident: Incident) -> bool:
    return ended(incident.record.status, NodeStage.DRAINED)


async def act(incident: Incident) -> bool:
    """Begin; which pods may go, and when, is decided at each look."""
    refused = await precondition(incident)
    if refused:
        raise PreconditionError(f"{incident.name} may not be drained: {refused}")
    return await incident.update(begin_once(NodeStage.DRAINED, incident.now()))


async def finish(incident: Incident, why: str) -> bool:
    return await incident.update(end(NodeStage.DRAINED, incident.now(), why))


async def delete_worker(incident: Incident, pod: PodView) -> bool:
    """The worker pod, with its own grace: its preStop tells Slurm. Journalled first; from here there is no way back."""
    await incident.recheck()
    now = incident.now()

    def told(record: ReplacementRecord) -> None:
        record.worker_deleted_at = record.worker_deleted_at or now

    await incident.update(replacement(told))
    return await _delete(incident, pod, grace_seconds=None)


async def evict(incident: Incident, pod: PodView) -> bool:
    """Through the eviction API; a budget that blocks is honoured and asked again. False while it blocks."""
    await incident.recheck(spare=not stays_first(incident.record))
    try:
        await incident.ports.kube.evict(pod.name, pod.namespace, uid=pod.uid)
    except TooManyRequestsError as error:
        log.info("%s: eviction of %s/%s is blocked: %s", incident.name, pod.namespace, pod.name, error)
        return False
    except (NotFoundError, ConflictError):
        return True
    return True


async def delete_pod(incident: Incident, pod: PodView) -> bool:
    """After the drain deadline: past the budgets, still with the pod's own grace."""
    await incident.recheck(spare=not stays_first(incident.record))
    return await _delete(incident, pod, grace_seconds=None)


async def prove_off(incident: Incident, *, power_off: bool) -> bool:
    """Ask the backend, at most every ten seconds. Only OFF is written; anything else is waited for, and told."""
    ports = incident.ports
    now_monotonic = ports.clock.monotonic_seconds()
    if incident.proof_asked is not None and now_monotonic - incident.proof_asked < PROOF_EVERY_SECONDS:
        return False
    incident.proof_asked = now_monotonic
    pool = await incident.pool()
    host = incident.record.status.replacement.bad_host
    host = host or await ports.replacer.host_of(pool, incident.record.spec.node)
    if host is None:
        log.warning("%s: Node %s is no host of pool %s", incident.name, incident.record.spec.node, pool.metadata.name)
        return False
    if power_off:
        await incident.recheck(node=False)
    try:
        proof = await ports.replacer.prove_off(pool, host, power_off=power_off)
    except CapacityError as error:
        log.warning("%s: host %s can't be proven off: %s", incident.name, host, error)
        proof = Proof.UNKNOWN
    if proof is not Proof.OFF:
        if power_off:
            await incident.tell(EVENT_PROOF)
        return False
    now = incident.now()

    def proven(record: ReplacementRecord) -> None:
        record.bad_host = record.bad_host or host
        record.proven_off_at = record.proven_off_at or now

    return await incident.update(replacement(proven))


async def force_delete(incident: Incident, pod: PodView) -> bool:
    """The host is proven off, so nothing runs: the pod object may go without its kubelet's word."""
    await incident.recheck(node=False)
    if incident.record.status.replacement.proven_off_at is None:
        raise PreconditionError(f"{incident.name}: the host is not proven off")
    first = pod.uid not in incident.forced
    incident.forced.add(pod.uid)
    return await _delete(incident, pod, grace_seconds=0) and first


async def _delete(incident: Incident, pod: PodView, grace_seconds: int | None) -> bool:
    try:
        await incident.ports.kube.delete(POD, pod.name, pod.namespace, uid=pod.uid, grace_seconds=grace_seconds)
    except (NotFoundError, ConflictError):
        log.info("%s: pod %s/%s has gone already", incident.name, pod.namespace, pod.name)
    return True
