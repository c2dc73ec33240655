"""Brings a pool to its spec in short steps: each call does what can be done now and says when to look again.

Called by whoever holds the pool's lease. Cut anywhere, the next call goes on from what is there.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Coroutine, Sequence
from typing import Any, Final

from sparewheel.api.base import format_time
from sparewheel.api.gpu_host import GpuHost, HostPhase
from sparewheel.api.gpu_pool import GpuPool
from sparewheel.api.names import TAINT_JOINING
from sparewheel.api.remediation import Remediation
from sparewheel.capacity import steps
from sparewheel.capacity.checks import Idle, nodes_with_workers, slurm_idle
from sparewheel.capacity.choose import need_of, spares_in_order
from sparewheel.capacity.claims import INCIDENT, claim_first, in_turn, let_go, owner_of
from sparewheel.capacity.heard import Reports
from sparewheel.capacity.hosts import ANNOTATION_REPLACE_DONE, entering, hosts_of, read_host, sync_hosts
from sparewheel.capacity.leftovers import Leftovers
from sparewheel.capacity.nodes import has_taint, nodes_of
from sparewheel.capacity.plan import View, make_plan, pool_owner
from sparewheel.capacity.pool_report import SETTLED_LOOK_SECONDS, ReconcileResult, Run, report
from sparewheel.capacity.port import CapacityError, CapacityProvider, Check, Proof, UnreachableError
from sparewheel.capacity.providers import provider_for
from sparewheel.capacity.requests import serve_requests
from sparewheel.capacity.spare_checks import look_at_spares
from sparewheel.capacity.steps import Site
from sparewheel.clock import Clock
from sparewheel.kube.port import GPU_HOST, GPU_POOL, REMEDIATION, Json, Kube, NotFoundError
from sparewheel.remediation.decide.record import is_open

log = logging.getLogger("sparewheel.capacity")
AT_ONCE: Final = 8
"""Machines joined side by side."""
CHECK_DEADLINE_SECONDS: Final = 600.0
"""A host gets this long to boot, and again to pass its checks once it joined; then another is taken."""


async def reconcile_pool(
    kube: Kube,
    namespace: str,
    pool_name: str,
    clock: Clock,
    reports: Reports | None,
    *,
    before_write: Callable[[], None] = lambda: None,
    provider: CapacityProvider | None = None,
    idle: Idle = slurm_idle,
) -> ReconcileResult:
    """One look at the pool, and what can be done about it now.

    Raises CapacityError when a person has to act (a key refused, too few machines), KubeError when the API server can't
    be asked. ``reports`` is the caller's, the same at each look; None where no agent's report is asked for.
    ``before_write`` raises when the caller may no longer act; it is asked before every effect.
    """
    pool = GpuPool.from_wire(await kube.get(GPU_POOL, pool_name, namespace))
    if pool.spec.paused:
        return ReconcileResult(settled=False, message="paused", look_again_seconds=SETTLED_LOOK_SECONDS)
    provider = provider or await provider_for(kube, pool, clock)
    site = Site(kube, provider, pool, clock, reports, before_write)
    try:
        return await _reconcile(site, idle)
    except UnreachableError as error:
        return ReconcileResult(settled=False, message=str(error))


async def _reconcile(site: Site, idle: Idle) -> ReconcileResult:
    run = await _look(site, idle)
    await _tidy(run)
    run.notes += await serve_requests(site, run.hosts)
    await _claim_more(run)
    await _together([_bring_in(run, name) for name in run.plan.bring_in])
    await _together([_put_back(run, name) for name in run.plan.put_back])
    for name in run.plan.drain:
        await steps.begin_drain(run.site, run.host(name), run.owner, _why(run, name))
    await _together([_drained(run, name) for name in (*run.plan.drain, *run.plan.draining)])
    await _together([_warm_up(run, name) for name in run.plan.warm_up])
    run.notes += await look_at_spares(site)
    return await report(run)


async def _look(site: Site, idle: Idle) -> Run:
    """Read everything afresh; any look-up that fails ends the call before anything is done."""
    kube, pool = site.kube, site.pool
    inventory = await site.provider.list_hosts()
    known = await hosts_of(kube, site.namespace, pool.metadata.name)
    names = {machine.host for machine in inventory} | {host.status.node_name or host.spec.host for host in known}
    nodes = await nodes_of(kube, pool.metadata.name, names)
    hosts = await sync_hosts(kube, pool, inventory, nodes, site.clock, site.before_write)
    records = map(Remediation.from_wire, (await kube.list(REMEDIATION, site.namespace)).items)
    open_records = [record for record in records if is_open(record)]
    workers = await nodes_with_workers(kube, pool)
    view = View(
        pool=pool.metadata.name,
        spec=pool.spec,
        hosts=hosts,
        inventory={machine.host for machine in inventory},
        incidents={
            f"{INCIDENT}{record.metadata.name}": record.spec.node
            for record in open_records
            if record.spec.pool == pool.metadata.name
        },
        idle=[name for name in nodes if name not in workers],
        nodes=nodes.keys(),
        joining=[name for name, node in nodes.items() if has_taint(node, TAINT_JOINING)],
        now=site.clock.now(),
    )
    return Run(site, pool_owner(pool.metadata.name), idle, hosts, make_plan(view))


async def _tidy(run: Run) -> None:
    """What is left over: claims of closed incidents, hosts that left the inventory, marks of replacements done."""
    kube, space = run.site.kube, run.site.namespace
    for name in run.plan.lost:
        await steps.lose_node(run.site, run.host(name))
        run.notes.append(f"{name} is a spare again: its Node was removed")
    for name in run.plan.missing:
        await steps.miss_node(run.site, run.host(name), missing=True)
        run.notes.append(f"the Node of {name} was removed; it may come back")
    for name in run.plan.back:
        await steps.miss_node(run.site, run.host(name), missing=False)
    for name in run.plan.rejoined:
        await steps.check_again(run.site, run.host(name), run.owner)
    for name in run.plan.free_claims:
        host = run.host(name)
        run.site.before_write()
        await let_go(kube, host, owner_of(host) or "", lambda _: None)
    for name in run.plan.forget_replace:
        run.site.before_write()
        await kube.merge_patch(GPU_HOST, name, {"metadata": {"annotations": {ANNOTATION_REPLACE_DONE: None}}}, space)
    for name in run.plan.forget:
        run.site.before_write()
        try:
            await kube.delete(GPU_HOST, name, space, uid=run.host(name).metadata.uid)
        except NotFoundError:
            continue


async def _claim_more(run: Run) -> None:
    """Claim the spares that are lacking; they are brought in by this call already."""
    for _ in range(run.plan.claim):
        hosts = await hosts_of(run.site.kube, run.site.namespace, run.site.pool.metadata.name)
        run.site.before_write()
        clock, need = run.site.clock, need_of(run.site.pool, None)
        order = spares_in_order(hosts, need, now=clock.now())
        left = Leftovers(run.site.kube, clock)
        fit = left.without(order) if run.site.reports is not None else in_turn(order)
        host = await claim_first(run.site.kube, run.site.namespace, [], fit, run.owner, lambda _: "joins", clock)
        if host is None:
            run.notes += [f"{name}: {why}" for name, why in left.found.items() if why]
            run.site.before_write()
            run.notes += filter(None, [await run.site.provider.find_more(run.plan.claim)])
            return
        run.plan.claim -= 1
        run.plan.bring_in.append(host.spec.host)


async def _bring_in(run: Run, name: str) -> None:
    """Join, check, admit: as far as it goes now."""
    site = run.site
    host = await read_host(site.kube, site.namespace, name)
    try:
        if host.status.phase in {HostPhase.SPARE, HostPhase.JOINING}:
            host = await steps.join(site, host, run.owner)
        result = await steps.check(site, host)
    except UnreachableError as error:
        await _out_of_reach(run, name, error)
        return
    overdue = _overdue(host, site.clock)
    if result.check is Check.PASSED:
        await steps.admit(site, host, run.owner, keep_claim=False)
        run.notes.append(f"{name} is active")
    elif result.check is Check.REFUSED or overdue:
        why = (
            result.why
            if result.check is Check.REFUSED
            else f"not ready after {CHECK_DEADLINE_SECONDS:g} s: {result.why}"
        )
        run.notes.append(f"{name} is refused: {why}")
        await steps.quarantine(site, host, run.owner, why)
    else:
        run.notes.append(f"{name} waits for {result.why}")


async def _out_of_reach(run: Run, name: str, error: UnreachableError) -> None:
    """A machine that is switched on may be booting: it is waited for. Any other gives way to another spare."""
    site = run.site
    log.warning("pool %s: %s", site.pool.metadata.name, error)
    run.notes.append(str(error))
    host = await read_host(site.kube, site.namespace, name)
    booting = await site.provider.prove_off(name, power_off=False) is Proof.ON
    if not booting or _overdue(host, site.clock):
        await let_go(site.kube, host, run.owner, steps.becomes_spare(site, str(error)))


def _overdue(host: GpuHost, clock: Clock) -> bool:
    since = host.status.since
    return since is not None and (clock.now() - since).total_seconds() > CHECK_DEADLINE_SECONDS


async def _put_back(run: Run, name: str) -> None:
    host = await read_host(run.site.kube, run.site.namespace, name)
    owner = owner_of(host)
    if owner is None:
        return
    if host.status.phase is HostPhase.SPARE:
        await let_go(run.site.kube, host, owner, entering(HostPhase.SPARE, run.site.clock, host.status.reason))
    else:
        await steps.back_to_spare(run.site, host, owner)
    run.notes.append(f"{name} goes back to the spares")


def _why(run: Run, name: str) -> str:
    return "replaced on request" if name in run.plan.replaced else "leaves the pool"


async def _drained(run: Run, name: str) -> None:
    """Once no job is on it, the host goes out: to quarantine when a person wanted it replaced, else to the spares."""
    site = run.site
    host = await read_host(site.kube, site.namespace, name)
    if owner_of(host) != run.owner:
        return
    host = await steps.begin_drain(site, host, run.owner, _why(run, name))  # perhaps cut before the cordon
    waits = await run.idle(site.kube, site.pool, host.status.node_name or name)
    if waits:
        run.notes.append(f"{name} waits for {waits}")
        return
    try:
        if name in run.plan.replaced:
            annotation: Json = {"metadata": {"annotations": {ANNOTATION_REPLACE_DONE: format_time(site.clock.now())}}}
            await site.kube.merge_patch(GPU_HOST, name, annotation, site.namespace)
            await steps.retire(site, host, host.status.boot_id or "", "replaced on request")
        else:
            await steps.back_to_spare(site, host, run.owner)
    except UnreachableError as error:
        run.notes.append(str(error))
        return
    run.notes.append(f"{name} left")


async def _warm_up(run: Run, name: str) -> None:
    """Join a free spare ahead of need, tainted as spare."""
    site = run.site
    spare, clock = in_turn([run.host(name)]), site.clock
    host = await claim_first(site.kube, site.namespace, [], spare, run.owner, lambda _: "warms up", clock)
    if host is None:
        return
    reason = ""
    try:
        await steps.place(site, host, steps.TAINT_SPARE, trust_node=False)
    except CapacityError as error:
        reason = str(error)
        run.notes.append(reason)
    enter = entering(HostPhase.SPARE, site.clock, reason)

    def warmed(status: Any) -> None:
        enter(status)
        status.node_name = None if reason else name

    await let_go(site.kube, host, run.owner, warmed)


async def _together(work: Sequence[Coroutine[Any, Any, None]]) -> None:
    """All side by side, at most eight at once; the first error comes out when all have ended."""
    gate = asyncio.Semaphore(AT_ONCE)

    async def one(job: Coroutine[Any, Any, None]) -> None:
        async with gate:
            await job

    results = await asyncio.gather(*(one(job) for job in work), return_exceptions=True)
    for result in results:
        if isinstance(result, BaseException):
            raise result
