"""Some days of incidents in figures, and what of them somebody should look after. Pure."""

from __future__ import annotations

import statistics
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from datetime import datetime, timedelta
from typing import Any

from sparewheel.api.gpu_host import GpuHost, HostPhase
from sparewheel.api.gpu_pool import GpuPool
from sparewheel.api.node_health import NodeHealth
from sparewheel.api.remediation import JobRecord, NodeStage, Outcome, Remediation
from sparewheel.api.remediation_policy import RemediationPolicy
from sparewheel.cli.host_words import STALE_HEARTBEATS
from sparewheel.remediation.decide.breaker import counted_since, fence_limit, fenced_since
from sparewheel.remediation.decide.budget import Use, pool_budget, used
from sparewheel.remediation.decide.deliveries import troubled
from sparewheel.remediation.decide.record import is_open, stage_record
from sparewheel.remediation.decide.spare_need import Need, need_of_pool


@dataclass(frozen=True, slots=True)
class Cluster:
    """What there is in the cluster at a time."""

    pools: Sequence[GpuPool]
    hosts: Sequence[GpuHost]
    health: Sequence[NodeHealth]
    records: Sequence[Remediation]
    policy: RemediationPolicy
    now: datetime


@dataclass(frozen=True, slots=True)
class Times:
    """Seconds after the fault, of as many as there are."""

    count: int
    median: float | None
    worst: float | None


@dataclass(frozen=True, slots=True)
class PoolWeek:
    name: str
    size: int
    active: int
    quarantined: int
    need: Need
    use: Use
    incidents: int


@dataclass(frozen=True, slots=True)
class Week:
    """``attention``: what a person should look after, the most pressing first."""

    since: datetime
    until: datetime
    records: tuple[Remediation, ...]
    """Newest first; open ones of any age among them."""
    incidents: int
    drills: int
    healed: int
    open: int
    failed: int
    jobs: int
    jobs_resumed: int
    jobs_lost: int
    """Those that do not come back by themselves."""
    fenced: Times
    resumed: Times
    closed: Times
    pools: tuple[PoolWeek, ...]
    fleet: Use
    breaker_open: bool
    fences: int
    fence_limit: int
    attention: tuple[str, ...]

    def as_json(self) -> dict[str, Any]:
        """For scripts: the figures, and the incidents by name."""
        return {
            **{key: value for key, value in asdict(self).items() if key not in {"since", "until", "records"}},
            "since": self.since.isoformat(),
            "until": self.until.isoformat(),
            "records": [record.metadata.name for record in self.records],
        }


def week_of(seen: Cluster, days: float) -> Week:
    """The last ``days`` up to now."""
    now, since = seen.now, seen.now - timedelta(days=days)
    chosen = [one for one in seen.records if is_open(one) or one.spec.fault.first_seen >= since]
    chosen.sort(key=lambda one: (one.spec.fault.first_seen, one.metadata.name), reverse=True)
    real = [one for one in chosen if not one.spec.fault.drill and not one.spec.dry_run]
    jobs = [job for one in real for job in one.status.jobs]
    gpu_nodes = sum(pool.spec.size for pool in seen.pools)
    policy, breaker = seen.policy.spec, seen.policy.status
    return Week(
        since=since,
        until=now,
        records=tuple(chosen),
        incidents=len(real),
        drills=sum(one.spec.fault.drill for one in chosen),
        healed=sum(one.status.outcome is Outcome.HEALED for one in real),
        open=sum(is_open(one) for one in real),
        failed=sum(one.status.outcome is Outcome.FAILED for one in real),
        jobs=len(jobs),
        jobs_resumed=sum(job.resumed_at is not None for job in jobs),
        jobs_lost=sum(bool(job.not_requeued_reason) for job in jobs),
        fenced=_times(_ended(one, NodeStage.FENCED) for one in real),
        resumed=_times(_after(one, job.resumed_at) for one in real for job in one.status.jobs),
        closed=_times(_ended(one, NodeStage.CLOSED) for one in real if one.status.outcome is Outcome.HEALED),
        pools=tuple(_pool(pool, seen, chosen) for pool in seen.pools),
        fleet=used(policy.budget, gpu_nodes, seen.records, now),
        breaker_open=breaker.breaker_open,
        fences=len(fenced_since(seen.records, counted_since(policy, breaker, now))),
        fence_limit=fence_limit(policy, gpu_nodes),
        attention=tuple(_attention(seen, chosen)),
    )


def _pool(pool: GpuPool, seen: Cluster, chosen: Sequence[Remediation]) -> PoolWeek:
    name = pool.metadata.name
    return PoolWeek(
        name=name,
        size=pool.spec.size,
        active=pool.status.active,
        quarantined=pool.status.quarantined,
        need=need_of_pool(pool, seen.hosts, seen.records, seen.now),
        use=used(
            pool_budget(pool.spec), pool.spec.size, (one for one in seen.records if one.spec.pool == name), seen.now
        ),
        incidents=sum(one.spec.pool == name and not one.spec.fault.drill for one in chosen),
    )


def _attention(seen: Cluster, chosen: Sequence[Remediation]) -> Iterable[str]:
    breaker = seen.policy.status
    if breaker.breaker_open:
        yield f"The breaker is open: {breaker.message}. `sparewheel breaker` says how to close it."
    for one in chosen:
        yield from _of_incident(one)
    for pool in seen.pools:
        need = need_of_pool(pool, seen.hosts, seen.records, seen.now)
        if need.short:
            yield f"{need.words[:1].upper()}{need.words[1:]}."
        drill = pool.status.last_drill
        if drill is not None and not drill.passed:
            yield f"The last drill of pool {pool.metadata.name} failed: {drill.message}"
    yield from filter(None, map(_of_host, seen.hosts))
    for health in seen.health:
        heard = health.status.heartbeat_time
        limit = STALE_HEARTBEATS * health.status.heartbeat_interval_seconds
        if heard is not None and (seen.now - heard).total_seconds() > limit:
            yield f"The agent of node {health.metadata.name} is silent."


def _of_incident(one: Remediation) -> Iterable[str]:
    name = one.metadata.name
    if is_open(one) and one.status.waiting_for:
        yield f"{name} waits for {one.status.waiting_for}."
    if one.status.outcome is Outcome.FAILED:
        yield f"{name} failed: {one.status.message or 'see its steps'}"
    for job in one.status.jobs:
        if job.not_requeued_reason and not one.spec.fault.drill:
            yield f"Job {job.job_id} of {job.user} does not come back by itself: {_reason(job)} ({name})."
    lost = troubled(one)
    if lost:
        yield f"{len(lost)} message(s) about {name} were not delivered: {lost[-1].last_error or 'given up'}."


def _of_host(host: GpuHost) -> str:
    if host.status.lemon:
        return f"Host {host.spec.host} is a lemon: {host.status.reason or 'it struck too often'}."
    if host.status.phase is HostPhase.QUARANTINED:
        return f"Host {host.spec.host} is in quarantine: {host.status.reason or 'no reason is told'}."
    return ""


def _reason(job: JobRecord) -> str:
    return job.not_requeued_reason.rstrip(".")


def _after(record: Remediation, time: datetime | None) -> float | None:
    return None if time is None else (time - record.spec.fault.first_seen).total_seconds()


def _ended(record: Remediation, stage: NodeStage) -> float | None:
    found = stage_record(record.status, stage)
    return _after(record, found.ended_at if found is not None else None)


def _times(seconds: Iterable[float | None]) -> Times:
    known = [one for one in seconds if one is not None]
    return Times(len(known), statistics.median(known) if known else None, max(known, default=None))
