"""``sparewheel spares``: how many spares each pool has and needs, and from what that follows."""

from __future__ import annotations

from dataclasses import asdict
from datetime import UTC, datetime

import typer

from sparewheel.api.gpu_host import GpuHost
from sparewheel.api.gpu_pool import GpuPool
from sparewheel.api.remediation import Remediation
from sparewheel.cli import tables
from sparewheel.cli.common import LOOK, Output, all_of, out, print_json, run, show
from sparewheel.kube.client import KubeClient
from sparewheel.kube.port import GPU_HOST, GPU_POOL, REMEDIATION
from sparewheel.remediation.decide.spare_need import need_of_pool


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command(rich_help_panel=LOOK)(spares)


def spares(output: Output = "table") -> None:
    """Spares that each pool has and needs: from 90 days of failures, how long a host is away, how sure to be."""

    async def command(kube: KubeClient) -> None:
        now = datetime.now(UTC)
        hosts = await all_of(kube, GPU_HOST, GpuHost)
        records = await all_of(kube, REMEDIATION, Remediation)
        needs = [need_of_pool(pool, hosts, records, now) for pool in await all_of(kube, GPU_POOL, GpuPool)]
        if output == "json":
            print_json([{**asdict(need), "short": need.short} for need in needs])
            return
        show(tables.spare_needs(needs))
        for text in tables.spare_warnings(needs, hosts):
            out.print(f"warning: {text}", style="yellow", markup=False)

    run(command)
