"""A warm spare takes over: claimed at the strike, free once the survivors have saved; its own Slurm node joins the job.

The struck Slurm node doesn't come back for the job's sake: its worker comes up wherever there is room, as a spare.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from datetime import datetime, timedelta

from sparewheel.api.gpu_host import GpuHost, HostPhase
from sparewheel.api.gpu_pool import GpuPool
from sparewheel.api.remediation import JobRecord, NodeStage, ReplacementRecord
from sparewheel.capacity.port import CapacityError
from sparewheel.kube.port import POD, Kube, KubeError
from sparewheel.remediation.decide.budget import FleetLimits, replacement_refused
from sparewheel.remediation.decide.events import EVENT_STRUCK_AGAIN
from sparewheel.remediation.decide.fence_record import disown_slurm, leave_slurm
from sparewheel.remediation.decide.job_records import started_on, struck_again
from sparewheel.remediation.decide.jobs import victims
from sparewheel.remediation.decide.ladder import stays_first
from sparewheel.remediation.decide.observations import PodView, SlurmNodeView
from sparewheel.remediation.decide.record import Change, begin_once, replacement
from sparewheel.remediation.decide.slurm_return import foreign, slurm_reason
from sparewheel.remediation.decide.spare_test import fresh
from sparewheel.remediation.decide.survivors import strikes
from sparewheel.remediation.decide.warm import (
    OUT,
    RESERVED,
    in_service,
    jobs_on_the_spare,
    left_before,
    left_behind,
    reservation_name,
    struck_since,
)
from sparewheel.remediation.stages import jobs as job_track
from sparewheel.remediation.stages import survivors
from sparewheel.remediation.stages.incident import Incident, log
from sparewheel.remediation.stages.replacer import Check
from sparewheel.remediation.stages.views import job_view, node_view, pod_view, slurm_node_view
from sparewheel.slurm.port import Slurm, SlurmError

CLAIM_SECONDS = 3.0
"""The claim may take so long; then the usual search goes on."""
CLAIMS = 3
"""Spares that are tried at the strike."""


async def reserve(slurm: Slurm, slurm_node: str, now: datetime) -> None:
    """Keep a Slurm node from all work; what runs there runs on."""
    await survivors.keep(slurm, reservation_name(slurm_node), (slurm_node,), now, RESERVED)


async def workers(kube: Kube, pool: GpuPool) -> list[PodView]:
    """The worker pods of a pool. Raises KubeError."""
    ref = pool.spec.node_set_ref
    found = await kube.list(POD, ref.namespace, label_selector=ref.worker_labels)
    return [pod_view(body) for body in found.items]


# -------------------------------------------------------------------- at the strike
async def claim(incident: Incident) -> None:
    """Claim a spare that stands by, at the strike. Whatever comes in the way: the usual search finds one later."""
    pool, has_one = await incident.pool(), incident.record.status.replacement.spare_host is not None
    if not pool.spec.warm_spares or not strikes(incident.record) or has_one or stays_first(incident.record):
        return
    try:
        async with asyncio.timeout(CLAIM_SECONDS):
            await _claim(incident, pool)
            await survivors.put(incident)
    except (KubeError, CapacityError, SlurmError, TimeoutError) as error:
        why = str(error) or f"it took more than {CLAIM_SECONDS:g} s"
        log.warning("%s: no warm spare at the strike: %s", incident.name, why)


async def _claim(incident: Incident, pool: GpuPool) -> None:
    replacer, spec = incident.ports.replacer, incident.record.spec
    verdict, standing_by = await asyncio.gather(incident.see_veto(), _standing_by(incident, pool))
    if verdict.reason or not standing_by:
        log.info("event=no_warm_spare incident=%s reason=%s", incident.name, verdict.reason or "none stands by")
        return
    async with incident.ports.claim_lock:
        incidents = await incident.ports.fleet.incidents()
        fleet = FleetLimits((await incident.ports.fleet.policy()).budget, incident.ports.fleet.gpu_nodes())
        refused = replacement_refused(incident.name, pool.metadata.name, pool.spec, incidents, incident.now(), fleet)
        bad = await replacer.host_of(pool, spec.node)
        if refused or bad is None:
            return
        hosts = await replacer.pool_hosts(pool)
        nodes, tested = {host.spec.host: host.status.node_name or "" for host in hosts}, _tested(incident, pool, hosts)
        others = [one for one, node in nodes.items() if node not in standing_by or one not in tested]
        host, why = await _first_fit(incident, pool, bad, others)
        if host is None:
            return
        now = incident.now()

        def claimed(record: ReplacementRecord) -> None:
            record.bad_host, record.spare_host, record.choice, record.message = bad, host, why, ""
            record.claimed_at = record.claimed_at or now
            record.spare_slurm_node = standing_by.get(nodes[host])

        await incident.update(begin_once(NodeStage.REPLACED, now), replacement(claimed))


async def _first_fit(incident: Incident, pool: GpuPool, bad: str, others: Sequence[str]) -> tuple[str | None, str]:
    """Claim the best spare that stands by and passes its checks now; ``others`` don't stand by. And why this one."""
    replacer, passed_over = incident.ports.replacer, list(others)
    for _ in range(CLAIMS):
        choice = await replacer.claim_spare(pool, incident.owner, bad, passed_over)
        if choice.host is None:
            break
        result = await replacer.check_spare(pool, choice.host, incident.owner)
        if result.check is Check.PASSED:
            return choice.host, choice.why
        log.warning("%s: spare %s does not stand by: %s", incident.name, choice.host, result.why)
        incident.lead()
        await replacer.give_up(pool, choice.host, incident.owner, result.why, quarantine=False)
        passed_over.append(choice.host)
    return None, ""


def _tested(incident: Incident, pool: GpuPool, hosts: Sequence[GpuHost]) -> set[str]:
    """Hosts whose Slurm test job passed within the hour, in this boot; all where the pool has no such test."""
    rule = pool.spec.spare_test
    if rule is None or not rule.enabled:
        return {host.spec.host for host in hosts}
    found: set[str] = set()
    for host in hosts:
        body = incident.ports.fleet.node_body(host.status.node_name or "")
        boot = "" if body is None else node_view(body).boot_id
        if fresh(host.status.slurm_test, boot, incident.ports.clock.now()):
            found.add(host.spec.host)
    return found


async def _standing_by(incident: Incident, pool: GpuPool) -> dict[str, str]:
    """Slurm node by Node, of workers on other nodes that are registered and run nothing."""
    listed, pods = await asyncio.gather(incident.ports.slurm.nodes(), workers(incident.ports.kube, pool))
    slurm = {node.name: slurm_node_view(node) for node in listed}
    found: dict[str, str] = {}
    for pod in pods:
        node = slurm.get(pod.hostname)
        usable = pod.ready and not pod.deleting and node is not None and in_service(node) and not node.busy
        if usable and pod.node_name != incident.record.spec.node:
            found[pod.node_name] = pod.hostname
    return found


# -------------------------------------------------------------------- after it
async def remember(incident: Incident) -> None:
    """Journal what is seen running on a spare that jobs may start on and that does not serve yet: should it be given
    up, it may have ended them, and who goes on with the incident by then did not see them."""
    record = incident.record.status.replacement
    if record.spare_slurm_node is None or record.lifted_at is None or record.admitted_at is not None:
        return
    within = (incident.now() - record.lifted_at).total_seconds()
    node = incident.places().get(record.spare_slurm_node, "")
    seen = incident.ports.fleet.remembered_jobs(node, record.spare_slurm_node, within)
    if seen.keys() - {job.job_id for job in record.jobs_seen}:
        await incident.update(jobs_on_the_spare(seen))


async def finish(incident: Incident) -> bool:
    """The worker on the admitted spare takes work, whatever its name; then the struck Slurm node is no longer owned."""
    pool, record = await incident.pool(), incident.record.status.replacement
    pods = await workers(incident.ports.kube, pool)
    here = [pod for pod in pods if pod.node_name == record.spare_node and pod.ready and not pod.deleting]
    theirs = await (_struck_since(incident) if here else taken_since(incident))
    if theirs:
        return await _leave(incident, theirs)
    if not here:
        return False
    name, slurm = here[0].hostname, incident.ports.slurm
    node = next((slurm_node_view(node) for node in await slurm.nodes() if node.name == name), None)
    if node is None or not node.registered or not await survivors.jobs_are_ready(incident):
        return False
    async with incident.hold_lock:
        return await _into_service(incident, node)


async def taken_since(incident: Incident) -> str:
    """Who took the admitted spare out of service since, in words; empty while it serves."""
    pool, spare = await incident.pool(), incident.record.status.replacement.spare_host
    hosts = await incident.ports.replacer.pool_hosts(pool)
    serves = any(host.spec.host == spare and host.status.phase is HostPhase.ACTIVE for host in hosts)
    return await _struck_since(incident) or ("" if serves else "it was taken out of service")


async def _struck_since(incident: Incident) -> str:
    return struck_since(incident.record, await incident.ports.fleet.incidents())


async def _leave(incident: Incident, theirs: str) -> bool:
    """No worker of this incident's comes into service on the spare any more, and nothing there is touched."""
    if not await survivors.jobs_are_ready(incident):
        return False
    log.warning("%s: spare %s: %s", incident.name, incident.record.status.replacement.spare_host, theirs)
    async with incident.hold_lock:
        await survivors.free(incident)
        return await incident.update(*_took_over(incident, incident.record.status.replacement.spare_slurm_node))


async def _into_service(incident: Incident, node: SlurmNodeView) -> bool:
    """Behind the hold, where there is one; then all that it kept is free at once."""
    name, slurm = node.name, incident.ports.slurm
    await survivors.put(incident, name)  # it comes into service behind the hold
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
    await survivors.free(incident)
    return await incident.update(*_took_over(incident, name))


def _took_over(incident: Incident, name: str | None) -> Sequence[Change]:
    now = incident.now()
    struck = list(incident.record.status.owned.slurm_down)

    def took_over(record: ReplacementRecord) -> None:
        record.spare_slurm_node, record.lifted_at = name, record.lifted_at or now
        record.slurm_restored_at = record.slurm_restored_at or now

    return [replacement(took_over), *(disown_slurm(one, now) for one in struck)]


async def put_back(incident: Incident) -> None:
    """The spare is given up after jobs could start on it: no work there, and what has started is requeued."""
    record = incident.record.status.replacement
    if record.spare_slurm_node is None or record.lifted_at is None:
        return
    now = incident.now()

    def struck(record: ReplacementRecord) -> None:
        record.struck_again_at = now  # one that is done again gives the whole grace again

    hit = await _struck_with(incident, record.spare_slurm_node)
    await incident.update(replacement(struck), struck_again(hit, now))
    await survivors.again(incident)
    incident.lead()
    await reserve(incident.ports.slurm, record.spare_slurm_node, now)
    reason = slurm_reason(incident.name, f"spare {record.spare_host} is given up")
    await incident.ports.slurm.set_node_state(record.spare_slurm_node, ["DOWN"], reason)
    await incident.tell(f"{EVENT_STRUCK_AGAIN}/{record.spare_host}")


async def _struck_with(incident: Incident, slurm_node: str) -> list[JobRecord]:
    """Jobs that the strike on the spare's Slurm node ends, those that came back on it and any that found room there;
    and those that the spare itself has ended since they could start on it.

    Written down before it. A failed look-up raises: the strike waits for it.
    """
    status, now, places = incident.record.status, incident.now(), incident.places()
    window = (await incident.ports.fleet.policy()).crashed_job_window_seconds
    within = min(window, (now - (status.replacement.lifted_at or now)).total_seconds())
    node, since = places.get(slurm_node, ""), now - timedelta(seconds=within)
    seen = incident.ports.fleet.remembered_jobs(node, slurm_node, within)
    written = {job.job_id: frozenset(job.slurm_nodes) for job in status.replacement.jobs_seen}
    ran = {job: nodes if slurm_node in nodes else frozenset[str]() for job, nodes in {**written, **seen}.items()}
    ran |= {job.job_id: frozenset[str]() for job in status.jobs if started_on(job, node, since)}
    listed = await incident.ports.slurm.jobs()
    jobs = [job_view(job, places) for job in job_track.near(listed, slurm_node, ran)]
    jobs = [job for job in jobs if job.job_id in seen or not left_before(job, since)]
    return victims(jobs, slurm_node, ran, now, within, places)
