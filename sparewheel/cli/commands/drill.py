"""``sparewheel drill``: a fault on purpose on an idle node, healed by the usual path, followed and judged."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Annotated

import typer

from sparewheel.api.gpu_host import GpuHost
from sparewheel.api.gpu_pool import GpuPool
from sparewheel.api.node_health import NodeHealth
from sparewheel.api.remediation import Outcome, Remediation
from sparewheel.cli import tables, timeline
from sparewheel.cli.commands.inject import strike
from sparewheel.cli.common import CommandError, all_of, checked_name, node_body, out, run
from sparewheel.clock import Clock, SystemClock
from sparewheel.kube.client import KubeClient
from sparewheel.kube.port import GPU_HOST, GPU_POOL, NODE, NODE_HEALTH, REMEDIATION, Kube
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
    app.command()(drill)


def drill(
    node: Annotated[str, typer.Option(help="the node to hit; else an idle one is chosen")] = "",
    fault: Annotated[str, typer.Option(help="xid79, xid48, ...")] = "xid79",
    busy: Annotated[bool, typer.Option("--busy", help="its jobs may be hit")] = False,
    limit: Annotated[float, typer.Option(min=1, help="seconds within which it must be healed")] = 300.0,
) -> None:
    """A fault on purpose, end to end: detected, fenced, replaced, recorded. Exits 1 when it is not healed in time."""

    async def command(kube: KubeClient) -> None:
        async def hit(name: str) -> str:
            return await strike(kube, fault, name, 0, "crash" if busy else "silent")

        record = await play(kube, SystemClock(), hit, node, limit, busy=busy)
        out.print(tables.timeline(f"{record.metadata.name} · {record.spec.node}", timeline.rows(record)))
        out.print(record.status.message, markup=False)
        host = record.status.replacement.bad_host
        out.print(f"Host {host} is quarantined by the drill: reboot it, then `sparewheel host release {host}`.")

    run(command)


async def play(kube: Kube, clock: Clock, hit: Strike, node: str, limit_seconds: float, *, busy: bool) -> Remediation:
    """The healed record. CommandError when no node may be drilled, or it is not healed in time."""
    chosen = await _choose(kube, clock, node, busy=busy)
    known = [record.metadata.name for record in await all_of(kube, REMEDIATION, Remediation)]
    began = clock.monotonic_seconds()
    out.print(f"Drill on node {chosen}: {await hit(chosen)}", markup=False)
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


async def _choose(kube: Kube, clock: Clock, node: str, *, busy: bool) -> str:
    pools, hosts = await all_of(kube, GPU_POOL, GpuPool), await all_of(kube, GPU_HOST, GpuHost)
    earlier = await all_of(kube, NODE_HEALTH, NodeHealth)
    await clock.sleep(BEATS * max((health.status.heartbeat_interval_seconds for health in earlier), default=0.0))
    healths, records = await all_of(kube, NODE_HEALTH, NodeHealth), await all_of(kube, REMEDIATION, Remediation)
    if node:
        view = node_view(await node_body(kube, checked_name(node)))
        why = why_not_drill(view, pools, hosts, healths, records, earlier, busy=busy)
        if why:
            raise CommandError(why)
        return node
    views = [node_view(body) for body in (await kube.list(NODE)).items]
    chosen, reasons = pick(views, pools, hosts, healths, records, earlier)
    if chosen is None:
        raise CommandError(f"no node may be drilled now: {'; '.join(reasons) or 'no node is in a pool'}")
    return chosen
