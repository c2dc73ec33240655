"""Warm spares: which worker stands by behind a reservation and which takes work. Pure.

A pool with warm spares has a worker for each of its nodes and each of its spares. Which Slurm node stands by is told by
the host that its worker runs on, never by its name. A worker that is on no serving host is kept behind a reservation,
also while it has no host at all, so that it can't take work wherever it comes up next.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import StrEnum

from sparewheel.api.gpu_host import GpuHost, HostPhase
from sparewheel.api.names import REASON_REGISTERS, REASON_UNRESERVED, SLURM_REASON_PREFIX
from sparewheel.api.remediation import NodeStage, Remediation, ReplacementRecord, SeenJob
from sparewheel.remediation.decide.observations import JobView, PodView, SlurmNodeView
from sparewheel.remediation.decide.record import Change, is_open, replacement, started
from sparewheel.remediation.decide.slurm_return import moved_by_slinky

RESERVATION_PREFIX = "sparewheel-spare-"
RESERVED = timedelta(days=365)
"""The longest that Slurm keeps one."""
RENEWED_BEFORE = timedelta(days=180)
OUT = frozenset({"DOWN", "DRAIN", "FAIL"})


def reservation_name(slurm_node: str) -> str:
    return f"{RESERVATION_PREFIX}{slurm_node}"


class Place(StrEnum):
    """Where a worker is."""

    MEMBER = "member"
    """On a host that serves: it takes the pool's work."""
    SPARE = "spare"
    """On a spare."""
    NOWHERE = "nowhere"
    """Waits for a host."""
    OTHERS = "others"
    """An incident, a drain or a person has it in hand."""


class WarmAction(StrEnum):
    RESERVE = "reserve"
    LIFT = "lift"
    """Delete the reservation: the worker takes work."""
    RESUME = "resume"


@dataclass(frozen=True, slots=True)
class Reservation:
    nodes: tuple[str, ...]
    end_time: datetime | None


@dataclass(frozen=True, slots=True)
class Worker:
    """One worker of the pool: ``slurm`` and ``reservation`` are None where Slurm has none."""

    name: str
    place: Place
    node: str = ""
    """The Node that it runs on; empty while it waits for one."""
    ready: bool = False
    """Its slurmd answers."""
    cordoned: bool = False
    slurm: SlurmNodeView | None = None
    reservation: Reservation | None = None


@dataclass(frozen=True, slots=True)
class InHand:
    """What open incidents have in hand: they bring it into service, or give it up."""

    owners: Collection[str] = ()
    """The owners that their claims carry."""
    nodes: Collection[str] = ()
    spares: Collection[str] = ()
    """Hosts that they have claimed by their journals, which are newer than a list of hosts may be."""
    struck: Collection[str] = ()
    """Slurm nodes."""


def place_of(pod: PodView, hosts: Mapping[str, GpuHost], taken: InHand, pool_owner: str) -> Place:
    """``hosts`` by Node."""
    if not pod.node_name:
        return Place.OTHERS if pod.hostname in taken.struck else Place.NOWHERE
    host = hosts.get(pod.node_name)
    if host is None or pod.deleting or pod.node_name in taken.nodes or host.spec.host in taken.spares:
        return Place.OTHERS
    phase, owner = host.status.phase, host.status.claim.owner if host.status.claim is not None else ""
    if owner in taken.owners:
        return Place.OTHERS
    if phase is HostPhase.ACTIVE:
        return Place.MEMBER
    on_its_way = phase in {HostPhase.JOINING, HostPhase.CHECKING} and owner == pool_owner
    return Place.SPARE if on_its_way or (phase is HostPhase.SPARE and owner in {"", pool_owner}) else Place.OTHERS


def next_actions(worker: Worker, now: datetime) -> tuple[WarmAction, ...]:
    """Protection first: a spare is only brought into service once its reservation was seen."""
    if worker.slurm is None or worker.place is Place.OTHERS:
        return ()  # a node that Slurm doesn't know yet registers drained
    resume = (WarmAction.RESUME,) if _may_resume(worker, worker.slurm) else ()
    if worker.place is Place.MEMBER:
        return (*((WarmAction.LIFT,) if worker.reservation is not None else ()), *resume)
    if not protected(worker, now):
        return (WarmAction.RESERVE,)
    return resume if worker.place is Place.SPARE else ()


def clearing_actions(worker: Worker, drained: Collection[str] = ()) -> tuple[WarmAction, ...]:
    """As ``next_actions``, in a pool that keeps warm spares no longer: what they left on a worker that serves now.

    ``drained``: nodes seen drained as warm spares are, before Slinky wrote its own reason over ours. A reservation says
    the same of a node, so it goes last. Of any other node Slinky's reason may stand over a person's drain.
    """
    slurm = worker.slurm
    if slurm is None or worker.place is not Place.MEMBER:
        return ()
    stays_out = slurm.states & OUT and left_behind(slurm.reason)
    if stays_out and (worker.reservation is not None or left_drained(slurm, drained)):
        return (WarmAction.RESUME,) if _may_resume(worker, slurm) else ()
    return (WarmAction.LIFT,) if worker.reservation is not None else ()


def left_drained(slurm: SlurmNodeView, drained: Collection[str]) -> bool:
    """Is it out of service only because the pool had warm spares?"""
    written_over = slurm.name in drained and bool(slurm.states & OUT) and moved_by_slinky(slurm.reason)
    return kept_out(slurm) or written_over


def remember_drained(drained: Collection[str], nodes: Iterable[SlurmNodeView]) -> set[str]:
    """The nodes that are out by a word of ours, or were and since then had no other word than Slinky's."""
    return {node.name for node in nodes if left_drained(node, drained)}


def gone_for_good(
    nodes: Iterable[SlurmNodeView], pods: Iterable[PodView], size: int, struck: Collection[str], named: Collection[str]
) -> list[str]:
    """Of the pool's own Slurm nodes those that no worker will be again: the pool has all its workers without them.

    ``struck``: in an open incident's hands. ``named``: by jobs that wait, which Slurm could not read again without
    them. One that a person or Slurm took out of service for another reason stays.
    """
    there = {pod.hostname for pod in pods if pod.hostname}
    if len(there) < size:
        return []
    kept = {*there, *struck, *named}
    return sorted(node.name for node in nodes if node.name not in kept and _left_over(node))


def _left_over(slurm: SlurmNodeView) -> bool:
    silent = not slurm.registered or "DOWN" in slurm.states
    ours = kept_out(slurm) or (bool(slurm.states & OUT) and moved_by_slinky(slurm.reason))
    return silent and ours and not slurm.busy


def kept_out(slurm: SlurmNodeView) -> bool:
    """Out of service by a word that only pools with warm spares give."""
    return bool(slurm.states & OUT) and slurm.reason.strip() in {REASON_REGISTERS, REASON_UNRESERVED}


def protected(worker: Worker, now: datetime) -> bool:
    """Behind a reservation that lasts, and that keeps no other node from work."""
    kept = worker.reservation
    if kept is None or kept.nodes != (worker.name,):
        return False
    return kept.end_time is None or kept.end_time - now > RENEWED_BEFORE


def _may_resume(worker: Worker, slurm: SlurmNodeView) -> bool:
    out = bool(slurm.states & OUT) and slurm.registered
    return out and worker.ready and not worker.cordoned and left_behind(slurm.reason)


def left_behind(reason: str) -> bool:
    """The reason of a node that is out of service only because of what was: it registered for the first time, an
    incident struck it on another host, or Slinky ended the worker before. A person's reason stays.
    """
    text = reason.strip()
    of_an_incident = text.startswith(SLURM_REASON_PREFIX) and text.endswith(")")
    return not text or text == REASON_REGISTERS or of_an_incident or moved_by_slinky(text)


def takes_jobs(record: ReplacementRecord) -> bool:
    """Was it claimed at the strike, so that jobs may start on it before it joins? It had none when it was claimed."""
    return record.spare_slurm_node is not None


def stands_by(worker: Worker) -> bool:
    """Ready to take over at a strike."""
    slurm = worker.slurm
    return worker.place is Place.SPARE and worker.ready and slurm is not None and in_service(slurm)


def in_service(slurm: SlurmNodeView) -> bool:
    return slurm.registered and not slurm.states & OUT


def jobs_on_the_spare(seen: Mapping[int, Collection[str]]) -> Change:
    """Journal jobs seen on the spare that jobs may start on: whoever goes on with the incident did not see them."""

    def remember(record: ReplacementRecord) -> None:
        known = {job.job_id for job in record.jobs_seen}
        new = sorted(seen.keys() - known)
        record.jobs_seen += [SeenJob(job_id=job, slurm_nodes=sorted(seen[job])) for job in new]

    return replacement(remember)


def left_before(job: JobView, since: datetime) -> bool:
    """Did Slurm requeue it before then, as it does with a job that ends by itself?"""
    return job.pending and job.submit_time is not None and job.submit_time < since


def struck_since(remediation: Remediation, incidents: Iterable[Remediation]) -> str:
    """Which other incident took the admitted spare out of service, in words: what stands on it is that one's."""
    node, own = remediation.status.replacement.spare_node, remediation.metadata.name
    on_it = (one for one in incidents if one.spec.node == node and one.metadata.name != own and is_open(one))
    struck = next((one for one in on_it if started(one.status, NodeStage.FENCED) and one.status.owned.slurm_down), None)
    return "" if struck is None else f"incident {struck.metadata.name} took it out of service"
