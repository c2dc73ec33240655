"""What there is and what happened: status, remediations, timeline, why."""

from __future__ import annotations

import json
from collections.abc import Sequence
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from typing import Annotated, Any

import typer

from sparewheel.api.gpu_host import GpuHost
from sparewheel.api.gpu_pool import GpuPool
from sparewheel.api.names import NAMESPACE
from sparewheel.api.node_health import NodeHealth
from sparewheel.api.remediation import Outcome, Remediation
from sparewheel.api.remediation_policy import RemediationPolicy
from sparewheel.cli import tables, timeline
from sparewheel.cli.commands import breaker
from sparewheel.cli.commands.plan import MODULE, controller
from sparewheel.cli.common import (
    LOOK,
    CommandError,
    Html,
    Output,
    all_of,
    checked_name,
    out,
    print_json,
    read,
    run,
    show,
    write_page,
)
from sparewheel.cli.pages.incident import incident_page
from sparewheel.cli.pod_exec import in_pod
from sparewheel.cli.undelivered import undelivered, undelivered_json
from sparewheel.clock import Clock, SystemClock
from sparewheel.kube.client import KubeClient
from sparewheel.kube.port import (
    GPU_HOST,
    GPU_POOL,
    NODE_HEALTH,
    REMEDIATION,
    REMEDIATION_POLICY,
    Kube,
    KubeError,
    NotFoundError,
    UnavailableError,
)
from sparewheel.remediation.decide.record import is_open
from sparewheel.remediation.decide.sentences import job_sentence
from sparewheel.remediation.decide.spare_need import Need, need_of_pool
from sparewheel.remediation.decide.untouched import untouched_words

FOLLOW_SECONDS = 1.0


def register(app: typer.Typer) -> None:
    """Add the commands."""
    app.command(rich_help_panel=LOOK)(status)
    app.command(rich_help_panel=LOOK)(remediations)
    app.command(name="timeline", rich_help_panel=LOOK)(show_timeline)
    app.command(rich_help_panel=LOOK)(why)


def status(output: Output = "table") -> None:
    """What is wrong first, then pools, hosts, open remediations and messages that were not delivered."""

    async def command(kube: KubeClient) -> None:
        now = datetime.now(UTC)
        pools = await all_of(kube, GPU_POOL, GpuPool)
        hosts = await all_of(kube, GPU_HOST, GpuHost)
        health = await all_of(kube, NODE_HEALTH, NodeHealth)
        records = await all_of(kube, REMEDIATION, Remediation)
        open_records = [record for record in records if is_open(record)]
        needs = [need_of_pool(pool, hosts, records, now) for pool in pools]
        warnings = await amiss(kube, needs)
        if output == "json":
            groups = {"pools": pools, "hosts": hosts, "nodeHealth": health, "openRemediations": open_records}
            found = {name: [item.to_wire() for item in items] for name, items in groups.items()}
            print_json({**found, "undeliveredMessages": undelivered_json(records), "warnings": warnings})
            return
        for warning in warnings:
            out.print(f"warning: {warning}", style="yellow", markup=False)
        show(tables.pools(pools, hosts, open_records))
        show(tables.hosts(hosts, health, open_records, now))
        if open_records:
            show(tables.remediations(open_records, now))
        else:
            out.print("No remediation is open.")
        show_undelivered(records, now)

    run(command)


async def amiss(kube: Kube, needs: Sequence[Need]) -> list[str]:
    """Why the platform may not heal as usual: nobody who does it, the breaker, a dry run, too few spares."""
    found: list[str] = []
    try:
        await controller(kube)
    except CommandError as error:
        found.append(str(error))
    except KubeError as error:
        found.append(f"whether a controller runs can't be asked: {error}")
    for policy in await all_of(kube, REMEDIATION_POLICY, RemediationPolicy):
        if policy.status.breaker_open:
            found.append(breaker.words(policy.status))
        if policy.spec.dry_run:
            found.append("it is a dry run (remediation.dry_run): incidents are recorded and nothing is done about them")
    return [*found, *(f"{need.words}; `sparewheel spares` shows how it is computed" for need in needs if need.short)]


def remediations(
    only_open: Annotated[bool, typer.Option("--open", help="only those that have not ended")] = False,
    node: Annotated[str, typer.Option(metavar="NODE", help="only those of this node")] = "",
    days: Annotated[float | None, typer.Option(min=0.01, help="only those of the last so many days")] = None,
    output: Output = "table",
) -> None:
    """All incidents, oldest first, and the messages about them that were not delivered."""

    async def command(kube: KubeClient) -> None:
        since = None if days is None else datetime.now(UTC) - timedelta(days=days)
        records = [
            record
            for record in await all_of(kube, REMEDIATION, Remediation)
            if (is_open(record) or not only_open)
            and node in {"", record.spec.node}
            and (since is None or record.spec.fault.first_seen >= since)
        ]
        if output == "json":
            print_json([record.to_wire() for record in records])
        elif records:
            now = datetime.now(UTC)
            show(tables.remediations(records, now))
            show_undelivered(records, now)
        else:
            chosen = only_open or node or days is not None
            out.print("No remediation is like that." if chosen else "No remediation yet.")

    run(command)


def show_undelivered(records: Sequence[Remediation], now: datetime) -> None:
    """The messages that nobody accepted, where there are any."""
    found = undelivered(records, now)
    if found is not None:
        show(found)


def show_timeline(
    name: Annotated[str, typer.Argument(metavar="NAME")],
    follow: Annotated[bool, typer.Option("--follow", "-f", help="tell each step until the incident has ended")] = False,
    html: Html = None,
    output: Output = "table",
) -> None:
    """What happened in the incident NAME and how long each step took, in seconds after the fault."""

    async def command(kube: KubeClient) -> None:
        if follow and output == "json":
            raise CommandError("--follow tells steps in words; leave out -o json, or ask again at the incident's end")
        record = await incident(kube, name)
        if follow:
            await followed(kube, SystemClock(), record)
            if html is None:
                return
            record = await incident(kube, name)
        if html is not None:
            write_page(html, incident_page(record, datetime.now(UTC)))
            return
        if output == "json":
            print_json(timeline.as_json(record))
            return
        show(tables.timeline(f"{name} · {record.spec.node}", timeline.rows(record)))
        for line in timeline.closing_lines(record):
            out.print(line, markup=False)

    run(command)


async def incident(kube: Kube, name: str) -> Remediation:
    try:
        return read(REMEDIATION, Remediation, await kube.get(REMEDIATION, checked_name(name), NAMESPACE))
    except NotFoundError:
        raise CommandError(f"there is no remediation {name}; `sparewheel remediations` lists them") from None


async def followed(kube: Kube, clock: Clock, record: Remediation) -> None:
    """Each step as it is written down, until the incident has ended. An API server that is away is waited for."""
    told: set[str] = set()
    while True:
        for line in timeline.news(told, record):
            out.print(line, markup=False, highlight=False)
        if not is_open(record):
            break
        await clock.sleep(FOLLOW_SECONDS)
        with suppress(UnavailableError):
            record = await incident(kube, record.metadata.name)
    if record.status.outcome is Outcome.FAILED:
        raise typer.Exit(1)


def why(job_id: Annotated[int, typer.Argument(metavar="JOBID")], output: Output = "table") -> None:
    """What ended the attempts of a Slurm job, whose fault it was, and how the job went on."""

    async def command(kube: KubeClient) -> None:
        records = await all_of(kube, REMEDIATION, Remediation)
        records.sort(key=lambda record: record.spec.fault.first_seen)
        found = [(record, job) for record in records for job in record.status.jobs if job.job_id == job_id]
        if output == "json":
            print_json([timeline.job_as_json(record, job) for record, job in found])
            return
        if not found:
            out.print(await untouched(kube, job_id), markup=False)
        for record, job in found:
            out.print(f"{job.message or job_sentence(record, job)} ({record.metadata.name})", markup=False)

    run(command)


async def untouched(kube: KubeClient, job_id: int) -> str:
    """Of a job that is in no record: what Slurm has to say of it, asked where the controller asks it."""
    try:
        pod, arguments = await controller(kube)
        inside = ["python", "-m", f"{MODULE}.job_look", str(job_id), *arguments]
        found: dict[str, Any] = json.loads(await in_pod(kube, pod, inside, "Slurm could not be asked"))
    except (CommandError, KubeError, ValueError) as error:
        return untouched_words(job_id, None, frozenset(), str(error))
    if not found:
        return untouched_words(job_id, None, frozenset(), "slurmctld does not know it, or no longer")
    words = {"own_end": found.get("ownEnd", ""), "held": found.get("held", "")}  # an older controller says neither
    return untouched_words(job_id, found["restarts"], frozenset(found["states"]), **words)
