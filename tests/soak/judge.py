"""What must be true when a schedule is over: all came to its end, nothing of ours is left, the records are true."""

from __future__ import annotations

from collections import Counter
from datetime import datetime
from itertools import pairwise

from sparewheel.api.names import (
    TAINT_FAULT,
)
from sparewheel.api.remediation import JobRecord, NodeStage, Outcome, Remediation
from sparewheel.kube.port import NODE
from sparewheel.remediation.decide.deliveries import queued
from sparewheel.remediation.decide.record import is_open, stage_record
from tests.soak.world import SoakWorld
from tests.support.job_reports import reported_attempt
from tests.support.play import NODE_MARKS


def unfinished(world: SoakWorld) -> list[str]:
    """What is still under way, in words."""
    found: list[str] = []
    for record in world.records():
        name, status = record.metadata.name, record.status
        if is_open(record):
            found.append(f"{name} is open, waits for {status.waiting_for or '?'} ({status.replacement.message})")
        found += [f"{name} follows job {job.job_id}" for job in status.jobs if _to_follow(world, job)]
        found += [f"{name} has {one.event} to tell" for one in queued(record)]
    return [*found, *_without_node(world), *_slurm_left(world), *_jobs_left(world)]


def _without_node(world: SoakWorld) -> list[str]:
    serving = (host for host in world.capacity.hosts.values() if host.phase == "Active")
    return [f"host {host.name} serves and has no Node" for host in serving if world.kube.peek(NODE, host.node) is None]


def _to_follow(world: SoakWorld, record: JobRecord) -> bool:
    """One that can't be requeued and was not ended is followed for as long as it runs."""
    job = world.slurm.job_table[record.job_id]
    runs_on = job.state == "RUNNING" and job.restart_count == record.attempt_before
    return not record.closed and not (runs_on and record.not_requeued_reason)


def judge(world: SoakWorld) -> None:
    """Adds what is wrong to the world's truth."""
    records = world.records()
    wrongs = [*_left_behind(world), *_told(world, records), *_jobs_hit(world)]
    for record in records:
        wrongs += [f"{record.metadata.name}: {text}" for text in _untrue(world, record)]
    for text in wrongs:
        world.truth.wrong(text)


# -------------------------------------------------------------------- left behind
def _left_behind(world: SoakWorld) -> list[str]:
    found: list[str] = []
    for body in world.kube._objects.get(NODE, {}).values():
        name = str(body["metadata"]["name"])
        annotations: dict[str, str] = body["metadata"].get("annotations") or {}
        listed: list[dict[str, str]] = body["spec"].get("taints") or []
        taints = {taint["key"] for taint in listed}
        ours = NODE_MARKS & annotations.keys()
        found += [f"node {name} still has annotation {one}" for one in sorted(ours)]
        found += [f"node {name} still has taint {TAINT_FAULT}"] if TAINT_FAULT in taints else []
        found += [f"node {name} is still cordoned"] if body["spec"].get("unschedulable") else []
    serving = sum(host.phase == "Active" for host in world.capacity.hosts.values())
    found += [f"{serving} hosts serve, {world.replicas} wanted"] if serving != world.replicas else []
    found += _without_node(world)
    for host in world.capacity.hosts.values():
        if host.owner and host.phase != "Active":
            found.append(f"host {host.name} is {host.phase} and still claimed by {host.owner}")
        if host.phase == "Quarantined" and not (world.truth.ill(host.name) or host.name in world.truth.unfit):
            found.append(f"host {host.name} is quarantined and was well: {host.reason}")
    return found


def _slurm_left(world: SoakWorld) -> list[str]:
    """Only a worker without a host is out of service; only spares are reserved."""
    places = world.worker_nodes()
    spare = {host.node for host in world.capacity.hosts.values() if host.phase == "Spare"}
    nowhere = {name for name, place in places.items() if not place}
    behind = nowhere | {name for name, place in places.items() if place in spare}
    out = {node.name for node in world.slurm.node_table.values() if node.down or node.drain}
    kept = {name for one in world.slurm.reservation_table.values() for name in one.nodes}
    found = [f"Slurm node {name} is out of service" for name in sorted(out - nowhere)]
    found += [f"Slurm node {name} is reserved" for name in sorted(kept - behind)]
    return found + [f"Slurm node {name} stands by without a reservation" for name in sorted(behind - kept)]


# -------------------------------------------------------------------- jobs
def _jobs_left(world: SoakWorld) -> list[str]:
    """There is room for all of them, so each that may go on runs and has reported a step."""
    found: list[str] = []
    for job in world.slurm.job_table.values():
        if job.state in {"CANCELLED", "COMPLETED", "NODE_FAIL", "FAILED"} or job.held:
            continue
        if job.state != "RUNNING" or reported_attempt(job) < job.restart_count:
            found.append(f"job {job.job_id} is {job.state} ({job.state_reason})")
    return found


def _jobs_hit(world: SoakWorld) -> list[str]:
    found: list[str] = []
    for job in world.slurm.job_table.values():
        causes = world.truth.ends.get(job.job_id, 0)
        if job.restart_count > causes:
            found.append(f"job {job.job_id} was started {job.restart_count} times anew for {causes} causes")
    return found


# -------------------------------------------------------------------- told
def _told(world: SoakWorld, records: list[Remediation]) -> list[str]:
    count: Counter[tuple[str, str]] = Counter()
    for event in world.receiver.events.values():
        for incident in event["incidents"]:
            count[incident["remediation"], event["event"]] += 1
    found: list[str] = []
    for record in records:
        for kind in ("incident.detected", "incident.closed"):
            times = count[record.metadata.name, kind]
            if times != 1:
                found.append(f"{record.metadata.name}: {kind} was told {times} times")
    return found


# -------------------------------------------------------------------- the records
def _untrue(world: SoakWorld, record: Remediation) -> list[str]:
    status, found = record.status, list[str]()
    for stage in status.stages:
        if stage.ended_at is None or stage.ended_at < stage.started_at:
            found.append(f"stage {stage.name} began {stage.started_at} and ended {stage.ended_at}")
    order = (NodeStage.DETECTED, NodeStage.FENCED, NodeStage.CLOSED)
    begun = [one.started_at for one in (stage_record(status, stage) for stage in order) if one is not None]
    found += _out_of_order("stages", begun)
    replacement = status.replacement
    brought_in = [replacement.claimed_at, replacement.joined_at, replacement.checked_at, replacement.admitted_at]
    found += _out_of_order("replacement", [*brought_in, replacement.quarantined_at])
    if status.owned.slurm_down or status.owned.cordon or status.owned.fault_taint:
        found.append("it still owns something")
    healed = status.outcome is Outcome.HEALED and replacement.admitted_at is not None
    host = world.capacity.hosts.get(replacement.bad_host or "")
    if healed and (host is None or host.phase != "Quarantined"):
        phase = host.phase if host is not None else "unknown"
        found.append(f"it says that {replacement.bad_host} is quarantined, which is {phase}")
    for job in status.jobs:
        found += [f"job {job.job_id}: {text}" for text in _untrue_job(world, job)]
    return found


def _out_of_order(what: str, times: list[datetime | None] | list[datetime]) -> list[str]:
    known = [time for time in times if time is not None]
    return [f"times of {what} go back: {a} then {b}" for a, b in pairwise(known) if b < a]


def _untrue_job(world: SoakWorld, record: JobRecord) -> list[str]:
    job, found = world.slurm.job_table[record.job_id], list[str]()
    found += _out_of_order("job", [record.stopping_at, record.requeued_at, record.started_at, record.resumed_at])
    if record.resumed_at is not None and reported_attempt(job) <= record.attempt_before:
        found.append("it says resumed, and the job reported nothing")
    if "no longer knows" in record.not_requeued_reason:
        found.append("it says that Slurm does not know the job")
    if record.not_requeued_reason and record.resumed_at is not None:
        found.append(f"it says both resumed and {record.not_requeued_reason}")
    runs_on = job.state == "RUNNING" and reported_attempt(job) > record.attempt_before
    if runs_on and record.not_requeued_reason and record.closed:
        found.append(f"it says {record.not_requeued_reason}, and the job runs on")
    return found
