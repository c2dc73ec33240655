"""One look at a pool, what it came to, and the pool's status that says so."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final, cast

from sparewheel.api.base import format_time
from sparewheel.api.gpu_host import GpuHost, HostPhase
from sparewheel.api.gpu_pool import GpuPool
from sparewheel.capacity.checks import Idle
from sparewheel.capacity.hosts import hosts_of
from sparewheel.capacity.plan import Plan
from sparewheel.capacity.port import CapacityError
from sparewheel.capacity.steps import Site
from sparewheel.kube.port import GPU_POOL, Json

LOOK_SECONDS: Final = 1.0


SETTLED_LOOK_SECONDS: Final = 60.0


@dataclass(frozen=True, slots=True)
class ReconcileResult:
    """``settled``: the pool is as its spec says and nothing is on its way."""

    settled: bool
    message: str
    look_again_seconds: float = LOOK_SECONDS


@dataclass(slots=True)
class Run:
    site: Site
    owner: str
    idle: Idle
    hosts: list[GpuHost]
    plan: Plan
    notes: list[str] = field(default_factory=list[str])
    """What is waited for, in words."""
    errors: list[CapacityError] = field(default_factory=list[CapacityError])

    def host(self, name: str) -> GpuHost:
        return next(host for host in self.hosts if host.spec.host == name)


async def report(run: Run) -> ReconcileResult:
    """The pool's status from its hosts as they are now, and whether anything is left to do."""
    site, pool = run.site, run.site.pool
    hosts = await hosts_of(site.kube, site.namespace, pool.metadata.name)
    count = {phase: sum(host.status.phase is phase for host in hosts) for phase in HostPhase}
    lacking = run.plan.claim
    settled = run.plan.settled and not run.notes
    counts = f"{count[HostPhase.ACTIVE]} of {pool.spec.size} active, {count[HostPhase.SPARE]} spare"
    message = "; ".join([counts, *run.notes])
    if lacking:
        message += f"; {lacking} more wanted but no spare is free"
    await _write_status(run, count, message, settled=settled)
    if lacking and not run.plan.bring_in and not run.plan.draining and not run.notes:
        raise CapacityError(_too_few(pool, hosts, lacking))
    return ReconcileResult(settled, message, SETTLED_LOOK_SECONDS if settled else LOOK_SECONDS)


def _too_few(pool: GpuPool, hosts: Sequence[GpuHost], lacking: int) -> str:
    out = [f"{host.spec.host} ({host.status.reason})" for host in hosts if host.status.phase is HostPhase.QUARANTINED]
    also = f"; quarantined: {', '.join(out)}" if out else ""
    return (
        f"pool {pool.metadata.name} asks for {pool.spec.size} nodes, {lacking} more than its {len(hosts)} machines can "
        f"give{also}; add machines to its backend, repair those quarantined, or ask for fewer"
    )


async def _write_status(run: Run, count: dict[HostPhase, int], message: str, *, settled: bool) -> None:
    """``observedGeneration`` is the generation that the pool has come to; written only when something changed."""
    pool, site = run.site.pool, run.site
    observed = pool.metadata.generation if settled else pool.status.observed_generation
    wanted: Json = {
        "observedGeneration": observed or 0,
        "active": count[HostPhase.ACTIVE],
        "spare": count[HostPhase.SPARE],
        "quarantined": count[HostPhase.QUARANTINED],
        "message": message,
    }
    present = cast("Json", pool.to_wire().get("status", {}))
    if any(present.get(key) != value for key, value in wanted.items()):
        site.before_write()
        wanted["updatedTime"] = format_time(site.clock.now())
        await site.kube.merge_patch(GPU_POOL, pool.metadata.name, {"status": wanted}, site.namespace, "status")
