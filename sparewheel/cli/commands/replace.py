"""``sparewheel replace``: a person has a node replaced."""

from __future__ import annotations

import getpass
from datetime import UTC, datetime
from typing import Annotated

import typer

from sparewheel.api.base import format_time
from sparewheel.api.names import ANNOTATION_REPLACE_REQUEST, LABEL_POOL, LABEL_ROLE, ROLE_ACTIVE
from sparewheel.cli.common import ACT, CommandError, node_body, out, run
from sparewheel.kube.client import KubeClient
from sparewheel.kube.port import NODE


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command(rich_help_panel=ACT)(replace)


def replace(
    node: Annotated[str, typer.Argument(metavar="NODE")],
    reason: Annotated[str, typer.Option(help="why; stands in the record")] = "by hand",
) -> None:
    """Have a node drained and replaced from spare capacity. Its jobs are requeued."""

    async def command(kube: KubeClient) -> None:
        body = await node_body(kube, node)
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

    run(command)
