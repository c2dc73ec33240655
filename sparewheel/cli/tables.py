"""Objects as tables for a terminal. Pure: objects and a time in, Rich tables out."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from datetime import datetime
from typing import Any

from rich.table import Table
from rich.text import Text

from sparewheel.api.gpu_host import GpuHost
from sparewheel.api.gpu_pool import GpuPool
from sparewheel.api.node_health import NodeHealth
from sparewheel.api.remediation import Outcome, Remediation
from sparewheel.cli.host_words import STALE_HEARTBEATS, fenced, in_hand, incident_of, phase_words
from sparewheel.cli.timeline import Row
from sparewheel.cli.week import Week
from sparewheel.remediation.decide.leftovers import kept_from_work
from sparewheel.remediation.decide.spare_need import Need


def age(since: datetime | None, now: datetime) -> str:
    """``12 s``, ``3 min``, ``2 h`` or ``5 d``; ``-`` when unknown."""
    if since is None:
        return "-"
    seconds = max(0, int((now - since).total_seconds()))
    for limit, size, unit in ((120, 1, "s"), (7200, 60, "min"), (172800, 3600, "h")):
        if seconds < limit:
            return f"{seconds // size} {unit}"
    return f"{seconds // 86400} d"


def pools(items: Sequence[GpuPool], hosts: Sequence[GpuHost], records: Sequence[Remediation]) -> Table:
    """``active`` are the hosts that take work: not those that are fenced already and not yet replaced."""
    incidents = in_hand(records)
    out_of_work = Counter(host.spec.pool for host in hosts if fenced(host, incidents))
    table = Table(
        "pool", "size", "active", "spares", "quarantined", "grace", "note", title="GPU pools", title_justify="left"
    )
    for pool in items:
        active = max(0, pool.status.active - out_of_work[pool.metadata.name])
        table.add_row(
            pool.metadata.name,
            str(pool.spec.size),
            Text(str(active), style="red" if active < pool.spec.size else "green"),
            Text(
                f"{pool.status.spare} of {pool.spec.spares}",
                style="yellow" if pool.status.spare < pool.spec.spares else "",
            ),
            str(pool.status.quarantined),
            f"{pool.spec.grace_seconds} s",
            "paused" if pool.spec.paused else pool.status.message,
        )
    return table


def hosts(
    items: Sequence[GpuHost], health: Sequence[NodeHealth], records: Sequence[Remediation], now: datetime
) -> Table:
    incidents = in_hand(records)
    by_node = {item.metadata.name: item for item in health}
    table = Table("host", "pool", "phase", "node", "GPUs", "fault", "agent", title="Hosts", title_justify="left")
    for host in sorted(items, key=lambda item: (item.spec.pool, item.spec.host)):
        node = host.status.node_name
        seen = by_node.get(node) if node else None
        table.add_row(
            host.spec.host,
            host.spec.pool,
            Text(phase_words(host, incidents), style="yellow" if incident_of(host, incidents) else ""),
            node or "-",
            _gpus(seen),
            ", ".join(sorted({fault.code for fault in seen.status.faults})) if seen else "-",
            _agent(seen, now),
        )
    return table


def machines(items: Sequence[GpuHost], records: Sequence[Remediation], now: datetime) -> Table:
    incidents = in_hand(records)
    columns = ("host", "pool", "phase", "for", "type", "block", "lemon", "checked", "reason")
    table = Table(*columns, title="Machines", title_justify="left")
    for host in sorted(items, key=lambda item: (item.spec.pool, item.spec.host)):
        spec, status = host.spec, host.status
        table.add_row(
            spec.host,
            spec.pool,
            phase_words(host, incidents, alone=True),
            age(status.since, now),
            spec.instance_type or "-",
            spec.nvlink_domain or spec.fabric_block or "-",
            Text("lemon", style="red") if status.lemon else "-",
            f"{age(status.checked_at, now)} ago" if status.checked_at else "never",
            status.reason or "-",
        )
    return table


def spare_warnings(needs: Iterable[Need], hosts: Iterable[GpuHost]) -> list[str]:
    """Pools that are short of spares, and spares that are kept from work."""
    kept = [f"spare {host.spec.host}: {host.status.reason}" for host in hosts if kept_from_work(host)]
    return [*(need.words for need in needs if need.short), *kept]


def spare_needs(items: Sequence[Need]) -> Table:
    columns = (
        "pool",
        "free",
        "configured",
        "needed",
        "failures",
        "node-days",
        "per 1,000 node-days",
        "days away",
        "sure",
    )
    table = Table(*columns, title="Spares", title_justify="left")
    for need in items:
        table.add_row(
            need.pool,
            Text(str(need.have), style="red" if need.short else "green"),
            str(need.configured),
            str(need.needed),
            str(need.failures),
            f"{need.node_days:.0f}",
            f"{need.rate_per_node_day * 1000:.2f}",
            f"{need.lead_days:.1f} ({need.repairs} repairs)",
            f"{need.confidence * 100:.6g} %",
        )
    return table


def _gpus(health: NodeHealth | None) -> str:
    if health is None:
        return "-"
    gpus = health.status.gpus
    return f"{'unknown' if gpus.seen is None else gpus.seen} of {gpus.expected}"


def _agent(health: NodeHealth | None, now: datetime) -> Text:
    if health is None or health.status.heartbeat_time is None:
        return Text("-")
    silent = (now - health.status.heartbeat_time).total_seconds()
    style = "red" if silent > STALE_HEARTBEATS * health.status.heartbeat_interval_seconds else ""
    return Text(f"{age(health.status.heartbeat_time, now)} ago", style=style)


def remediations(items: Sequence[Remediation], now: datetime) -> Table:
    table = Table(
        "name", "node", "fault", "stage", "outcome", "waiting for", "age", title="Remediations", title_justify="left"
    )
    for item in sorted(items, key=lambda one: one.metadata.creation_timestamp or now):
        style = (
            "yellow" if item.status.outcome is Outcome.OPEN else "red" if item.status.outcome is Outcome.FAILED else ""
        )
        drill = " (drill)" if item.spec.fault.drill else ""
        table.add_row(
            item.metadata.name,
            item.spec.node,
            item.spec.fault.code + drill,
            item.status.stage.value,
            Text(item.status.outcome.value, style=style),
            item.status.waiting_for or "-",
            age(item.metadata.creation_timestamp, now),
        )
    return table


def plan(found: dict[str, Any]) -> Table:
    """A previewed healing (``decide.plan.Preview`` as data), one line for each question."""
    table = Table("what", "now", title=f"Replacing {found['node']} would", title_justify="left", show_header=False)
    if found["refused"]:
        table.add_row("refused", Text(found["refused"], style="red"))
    for number, step in enumerate(found["steps"], 1):
        table.add_row(f"step {number}", Text(step))
    if found["ladder"]:
        table.add_row("tried first", Text(f"where a fault asks for less: {found['ladder']}"))
    for job in found["jobs"]:
        goes = "is requeued" if job["requeues"] else f"does not come back: {job['why_not']}"
        table.add_row(f"job {job['job_id']}", Text(f"{job['name']} of {job['user']} {goes}"))
    if not found["jobs"]:
        unknown = found["jobs_unknown"]
        table.add_row("jobs", Text(f"unknown: {unknown}" if unknown else "none runs there"))
    table.add_row("spare", Text(f"{found['spare'] or 'none'} ({found['spare_why'] or 'none stands by'})"))
    table.add_row("veto", Text(found["veto"] or "nothing vetoes"))
    for budget in found["budgets"]:
        words = f"{budget['namespace']}/{budget['name']} allows {budget['allowed']} of {len(budget['pods'])} pods"
        table.add_row("budget", Text(f"{words}: {', '.join(budget['pods'])}"))
    if found["budgets_unknown"]:
        table.add_row("budgets", Text(f"unknown: {found['budgets_unknown']}"))
    table.add_row("slots", f"{found['slots_used']} of {found['slots']} replacements of the pool under way")
    state = "open: further nodes are only drained" if found["breaker_open"] else "closed"
    table.add_row("breaker", f"{state} ({_fences(found)})")
    return table


def _fences(found: dict[str, Any]) -> str:
    """How near the breaker is, and by whom: a node that was fenced a minute ago may serve again."""
    window = found.get("fence_window_seconds")  # an older controller tells neither this nor the names
    within = f" within the last {window} s" if window is not None else ""
    names = ", ".join(found.get("fenced_nodes", ()))
    return f"{found['fenced']} of {found['fence_limit']} fences used{within}{f': {names}' if names else ''}"


def week(found: Week) -> Table:
    """Some days in figures, one line for each."""
    table = Table("what", "figure", title="The last days", title_justify="left", show_header=False)
    table.add_row("since", f"{found.since:%Y-%m-%d %H:%M} UTC")
    table.add_row("incidents", f"{found.incidents}: {found.healed} healed, {found.open} open, {found.failed} failed")
    table.add_row("drills", str(found.drills))
    lost = f", {found.jobs_lost} do not come back" if found.jobs_lost else ""
    table.add_row("jobs hit", f"{found.jobs}: {found.jobs_resumed} train again{lost}")
    for name, times in (("fenced", found.fenced), ("new step", found.resumed), ("node healed", found.closed)):
        if times.count:
            words = f"median {times.median:.1f} s, worst {times.worst:.1f} s of {times.count}"
            table.add_row(f"fault to {name}", words)
    for pool in found.pools:
        use, need = pool.use, pool.need
        limit = "" if use.per_window is None else f" of {use.per_window}"
        claims = f"{use.claims}{limit} replaced within {use.window_seconds} s"
        spares = f"{need.have} spares free, {need.needed} needed"
        table.add_row(f"pool {pool.name}", f"{pool.active} of {pool.size} nodes, {spares}, {claims}")
    state = "open" if found.breaker_open else "closed"
    table.add_row("breaker", f"{state}, {found.fences} of {found.fence_limit} fences used")
    return table


def timeline(name: str, rows: Sequence[Row]) -> Table:
    table = Table("from", "to", "took", "track", "stage", "note", title=name, title_justify="left")
    for row in rows:
        end = row.end_seconds
        table.add_row(
            f"{row.start_seconds:.1f} s",
            "-" if end is None else f"{end:.1f} s",
            "-" if end is None else f"{end - row.start_seconds:.1f} s",
            row.track,
            row.stage,
            row.message,
        )
    return table
