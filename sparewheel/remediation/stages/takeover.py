"""A warm spare takes over: claimed at the strike, free once the survivors have saved; its own Slurm node joins the job.

The struck Slurm node doesn't come back for the job's sake: its worker comes up wherever there is room, as a spare.
"""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Sequence
from datetime import datetime, timedelta

from sparewheel.api.gpu_pool import GpuPool
from sparewheel.api.names import LABEL_APP_INSTANCE, LABEL_APP_NAME, SLURMD_APP_NAME
from sparewheel.api.remediation import FenceKind, NodeStage, ReplacementRecord
from sparewheel.capacity.port import CapacityError
from sparewheel.kube.port import POD, Kube, KubeError
from sparewheel.remediation.decide.budget import FleetLimits, replacement_refused
from sparewheel.remediation.decide.ladder import stays_first
from sparewheel.remediation.decide.observations import Gone, PodView
from sparewheel.remediation.decide.record import Change, begin_once, disown_slurm, is_open, leave_slurm, replacement
from sparewheel.remediation.decide.slurm_return import foreign, slurm_reason
from sparewheel.remediation.decide.treated import on_hold
from sparewheel.remediation.decide.warm import OUT, RESERVED, in_service, left_behind, lift_due, reservation_name
from sparewheel.remediation.stages import jobs as job_track
from sparewheel.remediation.stages.incident import Incident, log
from sparewheel.remediation.stages.replacer import Check
from sparewheel.remediation.stages.views import pod_view, slurm_node_view
from sparewheel.slurm.port import Slurm, SlurmError, SlurmReservation

RESERVATION_FLAGS = frozenset({"MAINT", "IGNORE_JOBS"})
"""MAINT: shown as maintenance, and accounted so. IGNORE_JOBS: made although a job may be there."""
RESERVATION_USERS = ("root",)
LIFT_LOOK_SECONDS = 0.1
CLAIM_SECONDS = 3.0
"""The strike waits for a claim no longer than this."""
_BEGUN = timedelta(seconds=60)
"""A reservation begins this long ago, so that a clock of ours that is ahead of Slurm's leaves no gap."""


async def reserve(slurm: Slurm, slurm_node: str, now: datetime, others: Collection[str] = ()) -> None:
    """Keep a Slurm node from all work, and ``others`` with it; what runs there runs on."""
    await slurm.put_reservation(
        SlurmReservation(
            reservation_name(slurm_node),
            nodes=(slurm_node, *sorted(others)),
            users=RESERVATION_USERS,
            flags=RESERVATION_FLAGS,
            start_time=now - _BEGUN,
            end_time=now + RESERVED,
        )
    )


async def workers(kube: Kube, pool: GpuPool) -> list[PodView]:
    """The worker pods of a pool. Raises KubeError."""
    ref = pool.spec.node_set_ref
    selector = {LABEL_APP_NAME: SLURMD_APP_NAME, LABEL_APP_INSTANCE: ref.name}
    found = await kube.list(POD, ref.namespace, label_selector=selector)
    return [pod_view(body) for body in found.items]


# -------------------------------------------------------------------- at the strike
async def claim(incident: Incident) -> None:
    """Claim a spare that stands by, before the strike. Whatever comes in the way: the usual search finds one later."""
    pool, status = await incident.pool(), incident.record.status
    takes = pool.spec.warm_spares and status.fence in {FenceKind.DOWN, FenceKind.REQUEUE}
    if not takes or on_hold(incident.record) or stays_first(incident.record):
        return
    try:
        async with asyncio.timeout(CLAIM_SECONDS):
            if status.replacement.spare_host is None:
                await _claim(incident, pool)
            await _hold(incident)
    except (KubeError, CapacityError, SlurmError, TimeoutError) as error:
        why = str(error) or f"it took more than {CLAIM_SECONDS:g} s"
        log.warning("%s: no warm spare at the strike: %s", incident.name, why)


async def _claim(incident: Incident, pool: GpuPool) -> None:
    replacer, spec = incident.ports.replacer, incident.record.spec
    veto = (await incident.see_veto()).reason
    standing_by = await _standing_by(incident, pool)
    if veto or not standing_by:
        log.info("event=no_warm_spare incident=%s reason=%s", incident.name, veto or "none stands by")
        return
    async with incident.ports.claim_lock:
        incidents = await incident.ports.fleet.incidents()
        fleet = FleetLimits((await incident.ports.fleet.policy()).budget, incident.ports.fleet.gpu_nodes())
        refused = replacement_refused(incident.name, pool.metadata.name, pool.spec, incidents, incident.now(), fleet)
        bad = await replacer.host_of(pool, spec.node)
        if refused or bad is None:
            return
        nodes = {host.spec.host: host.status.node_name or "" for host in await replacer.pool_hosts(pool)}
        others = [host for host, node in nodes.items() if node not in standing_by]
        choice = await replacer.claim_spare(pool, incident.owner, bad, others)
        host = choice.host
        if host is None:
            return
        fit = (await replacer.check_spare(pool, host, incident.owner)).check is Check.PASSED
        now = incident.now()

        def claimed(record: ReplacementRecord) -> None:
            record.bad_host, record.spare_host, record.choice, record.message = bad, host, choice.why, ""
            record.claimed_at = record.claimed_at or now
            record.spare_slurm_node = standing_by.get(nodes[host]) if fit else None

        await incident.update(begin_once(NodeStage.REPLACED, now), replacement(claimed))


async def _hold(incident: Incident) -> None:
    """Before the strike the survivors go behind the spare's reservation too.

    Slurm frees them as they have saved, and the job can't start yet: any small job could have them before it.
    """
    found = incident.record.status.replacement
    name = found.spare_slurm_node
    if name is None or found.lifted_at is not None:
        return
    slurm, now = incident.ports.slurm, incident.now()
    comes_back = {job.job_id for job in incident.record.status.jobs if not job.not_requeued_reason}
    before = {job.job_id: job.slurm_nodes for job in incident.record.spec.jobs_seen}
    jobs = [job for job in await slurm.jobs() if job.job_id in comes_back]
    held = {node for job in jobs for node in (job.nodes or before.get(job.job_id, ()))}
    incident.lead()
    await reserve(slurm, name, now, held - {incident.record.spec.slurm_node, name})


async def _standing_by(incident: Incident, pool: GpuPool) -> dict[str, str]:
    """Slurm node by Node, of workers on other nodes that are registered and run nothing."""
    slurm = {node.name: slurm_node_view(node) for node in await incident.ports.slurm.nodes()}
    found: dict[str, str] = {}
    for pod in await workers(incident.ports.kube, pool):
        node = slurm.get(pod.hostname)
        usable = pod.ready and not pod.deleting and node is not None and in_service(node) and not node.busy
        if usable and pod.node_name != incident.record.spec.node:
            found[pod.node_name] = pod.hostname
    return found


# -------------------------------------------------------------------- once the job is ready for it
async def lift_when_due(incident: Incident) -> float | None:
    """Let jobs start on the warm spare as soon as the struck ones can; seconds until the next look, None: no more.

    Then they are first in the queue, and all of their nodes become free at once.
    """
    record = incident.record.status.replacement
    if not is_open(incident.record) or record.spare_slurm_node is None or record.lifted_at is not None:
        return None
    if not await _due(incident):
        return LIFT_LOOK_SECONDS
    incident.lead()
    await incident.ports.slurm.delete_reservation(reservation_name(record.spare_slurm_node))
    now = incident.now()

    def lifted(record: ReplacementRecord) -> None:
        record.lifted_at = record.lifted_at or now

    await incident.update(replacement(lifted))
    return None


async def _due(incident: Incident) -> bool:
    jobs = [job for job in job_track.open_jobs(incident) if not job.not_requeued_reason]
    views = await job_track.see(incident, jobs)
    return lift_due(incident.record, [(job, views.get(job.job_id, Gone())) for job in jobs], incident.now())


# -------------------------------------------------------------------- after it
async def finish(incident: Incident) -> bool:
    """The worker on the admitted spare takes work, whatever its name; then the struck Slurm node is no longer owned."""
    pool, record = await incident.pool(), incident.record.status.replacement
    pods = await workers(incident.ports.kube, pool)
    here = [pod for pod in pods if pod.node_name == record.spare_node and pod.ready and not pod.deleting]
    if not here:
        return False
    name, slurm = here[0].hostname, incident.ports.slurm
    node = next((slurm_node_view(node) for node in await slurm.nodes() if node.name == name), None)
    if node is None or not node.registered or not await _due(incident):
        return False
    incident.lead()
    await slurm.delete_reservation(reservation_name(name))
    if node.states & OUT and left_behind(node.reason):
        await slurm.set_node_state(name, ["RESUME"], "")
        return False  # seen in service at the next look
    theirs = foreign(node)
    if theirs:
        return await incident.update(leave_slurm(theirs))
    if not in_service(node):
        return False
    return await incident.update(*_took_over(incident, name))


def _took_over(incident: Incident, name: str) -> Sequence[Change]:
    now = incident.now()
    struck = list(incident.record.status.owned.slurm_down)

    def took_over(record: ReplacementRecord) -> None:
        record.spare_slurm_node, record.lifted_at = name, record.lifted_at or now
        record.slurm_restored_at = record.slurm_restored_at or now

    return [replacement(took_over), *(disown_slurm(one, now) for one in struck)]


async def put_back(incident: Incident) -> None:
    """The spare is given up after its reservation was lifted: no work there, and what has started is requeued."""
    record = incident.record.status.replacement
    if record.spare_slurm_node is None or record.lifted_at is None:
        return
    incident.lead()
    await reserve(incident.ports.slurm, record.spare_slurm_node, incident.now())
    reason = slurm_reason(incident.name, f"spare {record.spare_host} is given up")
    await incident.ports.slurm.set_node_state(record.spare_slurm_node, ["DOWN"], reason)
