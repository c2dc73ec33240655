"""``sparewheel``: the commands. Each asks through the ports and prints; nothing is decided here."""

from __future__ import annotations

import asyncio
import getpass
import json
import re
import subprocess
import sys
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated, Literal, TypeVar

import stamina
import typer
from pydantic import ValidationError
from rich.console import Console

from sparewheel import __version__
from sparewheel.api.base import ApiObject, format_time
from sparewheel.api.gpu_host import GpuHost
from sparewheel.api.gpu_pool import GpuPool
from sparewheel.api.names import (
    AGENT_APP_NAME,
    ANNOTATION_REPLACE_REQUEST,
    LABEL_APP_NAME,
    LABEL_POOL,
    LABEL_ROLE,
    NAMESPACE,
    ROLE_ACTIVE,
)
from sparewheel.api.node_health import NodeHealth
from sparewheel.api.remediation import Outcome, Remediation
from sparewheel.cli import tables, timeline
from sparewheel.kube.access import AccessError, from_environment
from sparewheel.kube.client import KubeClient
from sparewheel.kube.port import (
    GPU_HOST,
    GPU_POOL,
    NODE,
    NODE_HEALTH,
    POD,
    REMEDIATION,
    Json,
    KubeError,
    NotFoundError,
    Resource,
)
from sparewheel.remediation.decide.sentences import job_sentence

app = typer.Typer(no_args_is_help=True, add_completion=False, help="Asks and drives a Sparewheel cluster (KUBECONFIG).")
pool_app = typer.Typer(no_args_is_help=True, help="GPU pools of an environment's stack file.")
app.add_typer(pool_app, name="pool")
out = Console(soft_wrap=not sys.stdout.isatty())
err = Console(stderr=True)

Output = Annotated[Literal["table", "json"], typer.Option("--output", "-o", help="table or json")]
T = TypeVar("T")
Item = TypeVar("Item", bound=ApiObject)


class CommandError(Exception):
    """What the user did cannot be done; the message says why and what to do."""


def _run(command: Callable[[KubeClient], Awaitable[T]]) -> T:
    """Run one command against the cluster; every expected failure is one line on stderr and exit 1."""

    async def inside() -> T:
        async with KubeClient(from_environment()) as kube:
            return await command(kube)

    stamina.instrumentation.set_on_retry_hooks([])  # a try that failed is told once, as the command's error
    try:
        return asyncio.run(inside())
    except (AccessError, KubeError, CommandError) as error:
        err.print(f"error: {error}", style="red", markup=False)
        raise typer.Exit(1) from None


async def _all(kube: KubeClient, resource: Resource, model: type[Item]) -> list[Item]:
    namespace = NAMESPACE if resource.namespaced else None
    listing = await kube.list(resource, namespace)
    return [_read(resource, model, item) for item in listing.items]


def _read(resource: Resource, model: type[Item], body: Json) -> Item:
    try:
        return model.from_wire(body)
    except ValidationError as error:
        raise CommandError(
            f"{resource.kind} objects of another version are in the cluster ({error.error_count()} fields differ); "
            f"use the sparewheel of the controller's version, this one is {__version__}"
        ) from error


def _print_json(data: object) -> None:
    out.print_json(json.dumps(data))


@app.command()
def status(output: Output = "table") -> None:
    """Pools, hosts and open remediations."""

    async def command(kube: KubeClient) -> None:
        now = datetime.now(UTC)
        pools = await _all(kube, GPU_POOL, GpuPool)
        hosts = await _all(kube, GPU_HOST, GpuHost)
        health = await _all(kube, NODE_HEALTH, NodeHealth)
        records = await _all(kube, REMEDIATION, Remediation)
        open_records = [record for record in records if record.status.outcome is Outcome.OPEN]
        if output == "json":
            groups = {"pools": pools, "hosts": hosts, "nodeHealth": health, "openRemediations": open_records}
            _print_json({name: [item.to_wire() for item in items] for name, items in groups.items()})
            return
        out.print(tables.pools(pools))
        out.print(tables.hosts(hosts, health, now))
        out.print(tables.remediations(open_records, now) if open_records else "No remediation is open.")

    _run(command)


@app.command()
def remediations(output: Output = "table") -> None:
    """All incidents, oldest first."""

    async def command(kube: KubeClient) -> None:
        records = await _all(kube, REMEDIATION, Remediation)
        if output == "json":
            _print_json([record.to_wire() for record in records])
        elif records:
            out.print(tables.remediations(records, datetime.now(UTC)))
        else:
            out.print("No remediation yet.")

    _run(command)


@app.command(name="timeline")
def show_timeline(name: str, output: Output = "table") -> None:
    """What happened in the incident NAME and how long each step took, in seconds after the fault."""

    async def command(kube: KubeClient) -> None:
        try:
            record = _read(REMEDIATION, Remediation, await kube.get(REMEDIATION, _name(name), NAMESPACE))
        except NotFoundError:
            raise CommandError(f"there is no remediation {name}; `sparewheel remediations` lists them") from None
        if output == "json":
            _print_json(timeline.as_json(record))
            return
        out.print(tables.timeline(f"{name} · {record.spec.node}", timeline.rows(record)))
        for job in record.status.jobs:
            out.print(f"Job {job.job_id} of {job.user}: {job.message or job_sentence(record, job)}", markup=False)
        if record.status.message:
            out.print(record.status.message, markup=False)

    _run(command)


@app.command()
def why(job_id: Annotated[int, typer.Argument(metavar="JOBID")]) -> None:
    """What ended the attempts of a Slurm job, whose fault it was, and how the job went on."""

    async def command(kube: KubeClient) -> None:
        records = await _all(kube, REMEDIATION, Remediation)
        records.sort(key=lambda record: record.spec.fault.first_seen)
        found = [(record, job) for record in records for job in record.status.jobs if job.job_id == job_id]
        if not found:
            out.print(
                f"No incident of the platform touched job {job_id}. If it ended, it ended by itself, by its user or by "
                f"its time limit: `sacct -j {job_id} -o JobID,State,ExitCode,Reason` says which."
            )
        for record, job in found:
            out.print(f"{job.message or job_sentence(record, job)} ({record.metadata.name})", markup=False)

    _run(command)


@app.command()
def replace(node: str, reason: Annotated[str, typer.Option(help="why; stands in the record")] = "by hand") -> None:
    """Have a node drained and replaced from spare capacity. Its jobs are requeued."""

    async def command(kube: KubeClient) -> None:
        body = await _node(kube, node)
        if LABEL_POOL not in body["metadata"].get("labels", {}):
            raise CommandError(f"node {node} is in no GPU pool (label {LABEL_POOL}); it can't be replaced from spares")
        role = body["metadata"]["labels"].get(LABEL_ROLE)
        if role != ROLE_ACTIVE:
            raise CommandError(f"node {node} takes no work (it is {role or 'joining'}), so nothing is to be replaced")
        # The time makes it another request than an earlier one for the same reason.
        request = f"{getpass.getuser()} at {format_time(datetime.now(UTC))}: {reason}"
        patch = {"metadata": {"uid": body["metadata"]["uid"], "annotations": {ANNOTATION_REPLACE_REQUEST: request}}}
        await kube.merge_patch(NODE, node, patch)
        out.print(f"Node {node} will be replaced; `sparewheel remediations` shows how it goes.")

    _run(command)


def _name(text: str) -> str:
    """A name as it may stand in a request: an empty one or a path would ask for something else."""
    if not re.fullmatch(r"[a-z0-9]([-a-z0-9.]{0,251}[a-z0-9])?", text):
        raise CommandError(f"{text!r} is no name: small letters, digits, hyphens and dots")
    return text


async def _node(kube: KubeClient, name: str) -> dict[str, dict[str, dict[str, str]]]:
    try:
        return await kube.get(NODE, _name(name))
    except NotFoundError:
        raise CommandError(f"there is no node {name}; `sparewheel status` lists the nodes") from None


@app.command()
def inject(
    fault: Annotated[str, typer.Argument(help="xid79, xid31, ...")],
    node: Annotated[str, typer.Option(help="the node to hit")],
    gpu: Annotated[int, typer.Option(min=0, help="index of the GPU")] = 0,
    bite: Annotated[Literal["crash", "hang", "silent"], typer.Option(help="what its rank does")] = "crash",
) -> None:
    """A drill: a fault on purpose, by the agent on the node, marked as a drill in every record."""

    async def command(kube: KubeClient) -> None:
        if not re.fullmatch(r"xid ?[0-9]{1,4}", fault.lower()):
            raise CommandError(f"{fault!r} is no fault that can be injected; give an XID such as xid79")
        await _node(kube, node)
        pods = await kube.list(POD, NAMESPACE, {LABEL_APP_NAME: AGENT_APP_NAME}, f"spec.nodeName={node}")
        running = [pod for pod in pods.items if pod.get("status", {}).get("phase") == "Running"]
        if not running:
            raise CommandError(
                f"no agent runs on node {node}; a drill needs one: `kubectl -n {NAMESPACE} get pods -o wide`"
            )
        container = running[0]["spec"]["containers"][0]
        kernel_log = _argument(container.get("args", []) + container.get("command", []), "--kernel-log")
        drill = [
            "python3",
            "-m",
            "sparewheel.agent.drill",
            "--xid",
            fault[3:].strip(),
            "--gpu",
            str(gpu),
            "--bite",
            bite,
        ]
        if kernel_log:
            drill += ["--kernel-log", kernel_log]
        pod = running[0]["metadata"]["name"]
        done = await asyncio.to_thread(_exec, ["kubectl", "-n", NAMESPACE, "exec", pod, "--", *drill])
        out.print(done)

    _run(command)


def _argument(arguments: list[str], name: str) -> str | None:
    for index, argument in enumerate(arguments):
        if argument == name and index + 1 < len(arguments):
            return arguments[index + 1]
        if argument.startswith(f"{name}="):
            return argument.partition("=")[2]
    return None


def _exec(command: list[str]) -> str:
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    except FileNotFoundError:
        raise CommandError("kubectl is not on PATH; install it, the drill runs inside the agent's pod") from None
    except subprocess.TimeoutExpired:
        raise CommandError("the agent's pod did not answer within 60 s; is its node up?") from None
    if done.returncode:
        raise CommandError(f"the drill failed on the node: {done.stderr.strip()[-300:]}")
    return done.stdout.strip()


@pool_app.command("add")
def pool_add(
    name: str,
    stack: Annotated[Path, typer.Option("--stack-file", "-f", help="the environment's Pulumi.<env>.yaml")],
    size: Annotated[int, typer.Option(min=0, help="nodes that take work")],
    spares: Annotated[int, typer.Option(min=0, help="nodes that stand by")] = 0,
    machine: Annotated[
        list[str] | None, typer.Option(help="NAME,ADDRESS,HOST-KEY of a machine reached by SSH; once for each")
    ] = None,
    selector: Annotated[
        list[str] | None, typer.Option(help="KEY=VALUE of nodes that are in the cluster already; in place of machines")
    ] = None,
    gpus: Annotated[int | None, typer.Option(min=1, help="GPUs of each node")] = None,
    like: Annotated[str | None, typer.Option(help="take over all other settings from this pool")] = None,
) -> None:
    """Add a GPU pool to an environment's file, comments kept; the next `pulumi up` builds it."""
    from sparewheel.pools import NewPool, PoolError, add_pool, parse_machine, parse_selector

    try:
        machines = [parse_machine(text) for text in machine or []]
        nodes = dict(parse_selector(text) for text in selector or [])
        add_pool(stack, NewPool(name, size, spares, gpus, machines, nodes, like))
    except (PoolError, OSError) as error:
        err.print(f"error: {error}", style="red", markup=False)
        raise typer.Exit(1) from None
    out.print(f"Pool {name} added to {stack}; `pulumi preview` shows what it makes.")


def main() -> None:
    """Entry point."""
    app()
