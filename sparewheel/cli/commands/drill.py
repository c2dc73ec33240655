"""``sparewheel drill``: a fault on purpose on an idle node, healed by the usual path, followed and judged."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Annotated

import typer

from sparewheel.api.gpu_host import GpuHost
from sparewheel.api.gpu_pool import DrillResult, GpuPool
from sparewheel.api.names import LABEL_POOL, NAMESPACE
from sparewheel.api.node_health import NodeHealth
from sparewheel.api.remediation import Outcome, Remediation
from sparewheel.cli import tables, timeline
from sparewheel.cli.commands.inject import strike
from sparewheel.cli.common import (
    TRY,
    CommandError,
    Output,
    all_of,
    checked_name,
    err,
    fail,
    node_body,
    out,
    print_json,
    run,
    show,
)
from sparewheel.clock import Clock, SystemClock
from sparewheel.kube.client import KubeClient
from sparewheel.kube.port import GPU_HOST, GPU_POOL, NODE, NODE_HEALTH, REMEDIATION, Kube, KubeError
from sparewheel.remediation.decide.drill import drill_of, pick, why_not_drill
from sparewheel.remediation.decide.record import is_open
from sparewheel.remediation.stages.views import node_view

LOOK_SECONDS = 1.0
BEATS = 2
"""Heartbeats for which an agent is listened to before its node is chosen."""
Strike = Callable[[str], Awaitable[str]]
"""Injects the fault on a node."""


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command(rich_help_panel=TRY)(drill)


def drill(
    node: Annotated[str, typer.Option(help="the node to hit; else an idle one is chosen")] = "",
    fault: Annotated[str, typer.Option(help="xid79, xid48, ...")] = "xid79",
    busy: Annotated[bool, typer.Option("--busy", help="its jobs may be hit")] = False,
    limit: Annotated[float, typer.Option(min=1, help="seconds within which it must be healed")] = 300.0,
    pool: Annotated[str, typer.Option(help="choose a node of this pool")] = "",
    note: Annotated[bool, typer.Option("--note", help="write the result into the pool's status")] = False,
    output: Output = "table",
) -> None:
    """A fault on purpose, end to end: detected, fenced, replaced, recorded. Exits 1 when it is not healed in time."""
    if note and not pool:
        fail(CommandError("--note writes into a pool's status; name the pool by --pool"))

    async def command(kube: KubeClient) -> None:
        async def hit(name: str) -> str:
            return await strike(kube, fault, name, 0, "crash" if busy else "silent")

        drilled = play(kube, SystemClock(), hit, node, limit, busy=busy, pool=pool)
        record = await (noted(kube, SystemClock(), pool, drilled) if note else drilled)
        if output == "json":
            print_json(timeline.as_json(record))
            return
        show(tables.timeline(f"{record.metadata.name} · {record.spec.node}", timeline.rows(record)))
        out.print(record.status.message, markup=False)
        host = record.status.replacement.bad_host
        out.print(
            f"Host {host} is quarantined by the drill: reboot it, then `sparewheel host release {host} --reason ...`."
        )

    run(command)


async def noted(kube: Kube, clock: Clock, pool: str, drilled: Awaitable[Remediation]) -> Remediation:
    """The record, once the pool's status says how the drill went. What fails is noted, and fails."""
    try:
        record = await drilled
    except (CommandError, KubeError) as error:
        await _note(kube, pool, DrillResult(time=clock.now(), passed=False, message=str(error)[:1000]))
        raise
    name, message = record.metadata.name, record.status.message[:1000]
    await _note(kube, pool, DrillResult(time=clock.now(), passed=True, remediation=name, message=message))
    return record


async def _note(kube: Kube, pool: str, result: DrillResult) -> None:
    patch = {"status": {"lastDrill": result.model_dump(mode="json", by_alias=True)}}
    await kube.merge_patch(GPU_POOL, checked_name(pool), patch, NAMESPACE, subresource="status")


async def play(
    kube: Kube, clock: Clock, hit: Strike, node: str, limit_seconds: float, *, busy: bool, pool: str = ""
) -> Remediation:
    """The healed record. CommandError when no node may be drilled, or it is not healed in time."""
    chosen = await _choose(kube, clock, node, pool, busy=busy)
    known = [record.metadata.name for record in await all_of(kube, REMEDIATION, Remediation)]
    began = clock.monotonic_seconds()
    err.print(f"Drill on node {chosen}: {await hit(chosen)}", markup=False, highlight=False)
    record: Remediation | None = None
    while clock.monotonic_seconds() - began <= limit_seconds:
        record = drill_of(await all_of(kube, REMEDIATION, Remediation), chosen, known)
        if record is not None and not is_open(record):
            break
        await clock.sleep(LOOK_SECONDS)
    if record is None:
        raise CommandError(f"the drill on {chosen} opened no incident; does its agent run with --allow-drills?")
    if record.status.outcome is not Outcome.HEALED:
        waits = record.status.waiting_for or record.status.message or "its next step"
        outcome = record.status.outcome.value
        raise CommandError(f"{record.metadata.name} is {outcome} after {limit_seconds:g} s, not Healed: {waits}")
    return record


async def _choose(kube: Kube, clock: Clock, node: str, pool: str, *, busy: bool) -> str:
    pools, hosts = await all_of(kube, GPU_POOL, GpuPool), await all_of(kube, GPU_HOST, GpuHost)
    earlier = await all_of(kube, NODE_HEALTH, NodeHealth)
    await clock.sleep(BEATS * max((health.status.heartbeat_interval_seconds for health in earlier), default=0.0))
    healths, records = await all_of(kube, NODE_HEALTH, NodeHealth), await all_of(kube, REMEDIATION, Remediation)
    if node:
        view = node_view(await node_body(kube, checked_name(node)))
        if pool and view.labels.get(LABEL_POOL) != pool:
            raise CommandError(f"node {node} is not in pool {pool}; leave one of both away")
        why = why_not_drill(view, pools, hosts, healths, records, earlier, busy=busy)
        if why:
            raise CommandError(why)
        return node
    if pool and pool not in {one.metadata.name for one in pools}:
        raise CommandError(f"there is no pool {pool}; `sparewheel status` lists the pools")
    views = [
        node_view(body) for body in (await kube.list(NODE, label_selector={LABEL_POOL: pool} if pool else None)).items
    ]
    chosen, reasons = pick(views, pools, hosts, healths, records, earlier)
    if chosen is None:
        raise CommandError(f"no node may be drilled now: {'; '.join(reasons) or 'no node is in a pool'}")
    return chosen
