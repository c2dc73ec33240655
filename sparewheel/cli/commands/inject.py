"""``sparewheel inject``: a drill, by the agent on the node."""

from __future__ import annotations

import re
from typing import Annotated, Literal

import typer

from sparewheel.api.names import AGENT_APP_NAME, GPU_RESOURCE, LABEL_APP_NAME, NAMESPACE
from sparewheel.api.node_health import NodeHealth
from sparewheel.cli.common import TRY, CommandError, node_body, out, read, run
from sparewheel.cli.pod_exec import in_pod
from sparewheel.faults.asks import asks_for
from sparewheel.kube.client import KubeClient
from sparewheel.kube.port import NODE_HEALTH, POD, Kube, NotFoundError


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command(rich_help_panel=TRY)(inject)


def inject(
    fault: Annotated[str, typer.Argument(metavar="FAULT", help="xid79, xid31, ...")],
    node: Annotated[str, typer.Option(help="the node to hit")],
    gpu: Annotated[int, typer.Option(min=0, help="index of the GPU")] = 0,
    bite: Annotated[Literal["crash", "hang", "silent"], typer.Option(help="what its rank does")] = "crash",
) -> None:
    """A drill: a fault on purpose, by the agent on the node, marked as a drill in every record."""

    async def command(kube: KubeClient) -> None:
        out.print(await strike(kube, fault, node, gpu, bite), markup=False)
        out.print(asks_for(f"XID {xid_of(fault)}"), markup=False)

    run(command)


async def strike(kube: KubeClient, fault: str, node: str, gpu: int, bite: str) -> str:
    """Inject the fault; what the agent's drill says. CommandError when it can't be."""
    xid = xid_of(fault)
    await check_gpu(kube, node, gpu)
    pods = await kube.list(POD, NAMESPACE, {LABEL_APP_NAME: AGENT_APP_NAME}, f"spec.nodeName={node}")
    running = [pod for pod in pods.items if pod.get("status", {}).get("phase") == "Running"]
    if not running:
        raise CommandError(
            f"no agent runs on node {node}; a drill needs one: `kubectl -n {NAMESPACE} get pods -o wide`"
        )
    container = running[0]["spec"]["containers"][0]
    kernel_log = _argument(container.get("args", []) + container.get("command", []), "--kernel-log")
    drill = ["python3", "-m", "sparewheel.agent.drill", "--xid", str(xid), "--gpu", str(gpu), "--bite", bite]
    if kernel_log:
        drill += ["--kernel-log", kernel_log]
    pod = running[0]["metadata"]["name"]
    return await in_pod(kube, pod, drill, "the drill failed on the node")


def xid_of(fault: str) -> int:
    """``xid79`` or ``XID 79`` to 79."""
    if not re.fullmatch(r"xid ?[0-9]{1,4}", fault.lower(), re.ASCII):
        raise CommandError(f"{fault!r} is no fault that can be injected; give an XID such as xid79")
    return int(fault[3:])


async def check_gpu(kube: Kube, node: str, gpu: int) -> None:
    """CommandError when the node has no such GPU. A node whose GPUs nobody counted yet is left to its agent."""
    body = await node_body(kube, node)
    try:
        health = read(NODE_HEALTH, NodeHealth, await kube.get(NODE_HEALTH, node))
    except NotFoundError:
        health = NodeHealth()
    counted = int(body.get("status", {}).get("capacity", {}).get(GPU_RESOURCE, "0"))
    count = max(health.status.gpus.expected, counted)
    if count and gpu >= count:
        has = f"GPUs 0 to {count - 1}" if count > 1 else "GPU 0 alone"
        raise CommandError(f"node {node} has {has}, no GPU {gpu}; nothing was injected")


def _argument(arguments: list[str], name: str) -> str | None:
    for index, argument in enumerate(arguments):
        if argument == name and index + 1 < len(arguments):
            return arguments[index + 1]
        if argument.startswith(f"{name}="):
            return argument.partition("=")[2]
    return None
