"""``sparewheel plan``: what the controller would do about a node now; nothing is touched."""

from __future__ import annotations

import json
from typing import Annotated, Any

import typer

from sparewheel.api.names import CONTROLLER_APP_NAME, LABEL_APP_NAME, NAMESPACE
from sparewheel.cli import tables
from sparewheel.cli.common import LOOK, CommandError, Output, checked_name, node_body, print_json, run, show
from sparewheel.cli.pod_exec import in_pod
from sparewheel.kube.client import KubeClient
from sparewheel.kube.port import POD, Kube

MODULE = "sparewheel.remediation.controller"


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command(rich_help_panel=LOOK)(plan)


def plan(node: Annotated[str, typer.Argument(metavar="NODE")], output: Output = "table") -> None:
    """What a replacement of NODE would do now: jobs hit, spare taken, what is in the way. Nothing is touched."""

    async def command(kube: KubeClient) -> None:
        await node_body(kube, node)
        pod, arguments = await controller(kube)
        inside = ["python", "-m", f"{MODULE}.preview", checked_name(node), *arguments]
        text = await in_pod(kube, pod, inside, "the plan could not be made")
        found: dict[str, Any] = json.loads(text)
        if output == "json":
            print_json(found)
        else:
            show(tables.plan(found))

    run(command)


async def controller(kube: Kube) -> tuple[str, list[str]]:
    """A controller's pod that runs, and the arguments that it runs with."""
    pods = (await kube.list(POD, NAMESPACE, {LABEL_APP_NAME: CONTROLLER_APP_NAME})).items
    for pod in pods:
        if pod.get("status", {}).get("phase") == "Running" and not pod["metadata"].get("deletionTimestamp"):
            container: dict[str, list[str]] = pod["spec"]["containers"][0]
            words = [*(container.get("command") or []), *(container.get("args") or [])]
            after = words[words.index(MODULE) + 1 :] if MODULE in words else []
            return pod["metadata"]["name"], [word for word in after if not word.startswith("--health-port")]
    raise CommandError(f"no controller runs, so nothing would be done: `kubectl -n {NAMESPACE} get pods`")
