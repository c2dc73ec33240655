"""``sparewheel report``: the last days in figures, or as a page to look at."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Annotated

import typer

from sparewheel.api.gpu_host import GpuHost
from sparewheel.api.gpu_pool import GpuPool
from sparewheel.api.names import NAMESPACE, POLICY_NAME
from sparewheel.api.node_health import NodeHealth
from sparewheel.api.remediation import Remediation
from sparewheel.api.remediation_policy import RemediationPolicy
from sparewheel.cli import tables
from sparewheel.cli.common import LOOK, CommandError, Html, Output, all_of, out, print_json, read, run, show, write_page
from sparewheel.cli.pages.week import week_page
from sparewheel.cli.week import Cluster, week_of
from sparewheel.kube.client import KubeClient
from sparewheel.kube.port import (
    GPU_HOST,
    GPU_POOL,
    NODE_HEALTH,
    REMEDIATION,
    REMEDIATION_POLICY,
    Kube,
    NotFoundError,
)


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command(rich_help_panel=LOOK)(report)


def report(
    days: Annotated[float, typer.Option(min=0.01, max=3660, help="how far back")] = 7.0,
    html: Html = None,
    output: Output = "table",
) -> None:
    """The last days at a glance: what needs a person, incidents, times, jobs, spares, budgets."""

    async def command(kube: KubeClient) -> None:
        week = week_of(await look(kube, datetime.now(UTC)), days)
        if html is not None:
            write_page(html, week_page(week))
        elif output == "json":
            print_json(week.as_json())
        else:
            show(tables.week(week))
            for line in week.attention:
                out.print(f"- {line}", markup=False)

    run(command)


async def look(kube: Kube, now: datetime) -> Cluster:
    """All that the report is made of."""
    try:
        policy = read(REMEDIATION_POLICY, RemediationPolicy, await kube.get(REMEDIATION_POLICY, POLICY_NAME, NAMESPACE))
    except NotFoundError:
        raise CommandError(f"there is no RemediationPolicy {POLICY_NAME}; run `pulumi up`, which makes it") from None
    return Cluster(
        pools=await all_of(kube, GPU_POOL, GpuPool),
        hosts=await all_of(kube, GPU_HOST, GpuHost),
        health=await all_of(kube, NODE_HEALTH, NodeHealth),
        records=await all_of(kube, REMEDIATION, Remediation),
        policy=policy,
        now=now,
    )
