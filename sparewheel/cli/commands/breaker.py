"""``sparewheel breaker``: shows the breaker on fencing, and closes it in a person's name."""

from __future__ import annotations

import getpass
from datetime import UTC, datetime
from typing import Annotated

import typer
from rich.markup import escape

from sparewheel.api.base import format_time
from sparewheel.api.names import NAMESPACE, POLICY_NAME
from sparewheel.api.remediation_policy import Backlog, RemediationPolicy, RemediationPolicyStatus
from sparewheel.cli.common import ACT, CommandError, Output, out, print_json, read, run
from sparewheel.kube.client import KubeClient
from sparewheel.kube.port import REMEDIATION_POLICY, ConflictError, Json, NotFoundError
from sparewheel.remediation.decide.breaker import closed, end_words

group = typer.Typer(help="After too many nodes were fenced at once, the rest is only drained until you have looked.")


def register(app: typer.Typer) -> None:
    """Add the commands."""
    app.add_typer(group, name="breaker", rich_help_panel=ACT)


@group.callback(invoke_without_command=True)
def show(context: typer.Context, output: Output = "table") -> None:
    """Open or closed, since when, by what; who closed it last and why."""
    if context.invoked_subcommand is not None:
        return
    status = run(_read)[1]
    if output == "json":
        print_json(status.model_dump(mode="json", by_alias=True, exclude_none=True))
    else:
        out.print(escape(words(status)))


@group.command()
def close(
    reason: Annotated[str, typer.Option(help="what you found; stands in the policy")],
    *,
    resume: Annotated[bool, typer.Option("--resume", help="fence the nodes that were only drained")] = False,
    skip_backlog: Annotated[bool, typer.Option("--skip-backlog", help="leave them drained")] = False,
) -> None:
    """Close it. Fences from now on count anew, so it opens again when too many follow."""
    if resume == skip_backlog:
        raise typer.BadParameter("say what becomes of the nodes that were only drained: --resume or --skip-backlog")
    if not reason.strip():
        raise typer.BadParameter("--reason is empty; say what you found")
    backlog = Backlog.RESUME if resume else Backlog.SKIP

    async def command(kube: KubeClient) -> None:
        version, status = await _read(kube)
        if not status.breaker_open:
            raise CommandError("the breaker is closed already; nothing changed")
        new = closed(status, getpass.getuser(), reason.strip(), backlog, datetime.now(UTC))
        patch: Json = {
            "metadata": {"resourceVersion": version},
            "status": new.model_dump(mode="json", by_alias=True, exclude={"notify_test"}),
        }
        try:
            await kube.merge_patch(REMEDIATION_POLICY, POLICY_NAME, patch, NAMESPACE, subresource="status")
        except ConflictError:
            raise CommandError("the policy was changed meanwhile; look at `sparewheel breaker` and try again") from None
        out.print(escape(words(new)))

    run(command)


async def _read(kube: KubeClient) -> tuple[str, RemediationPolicyStatus]:
    try:
        body = await kube.get(REMEDIATION_POLICY, POLICY_NAME, NAMESPACE)
    except NotFoundError:
        raise CommandError(f"there is no RemediationPolicy {POLICY_NAME}; run `pulumi up`, which makes it") from None
    policy = read(REMEDIATION_POLICY, RemediationPolicy, body)
    return policy.metadata.resource_version or "", policy.status


def words(status: RemediationPolicyStatus) -> str:
    """The state in a few sentences."""
    if status.breaker_open:
        since = format_time(status.breaker_since)[:19] if status.breaker_since else "?"
        return (
            f"The breaker is OPEN since {since}Z, by {status.tripped_by or '?'}: {status.message}.\n"
            "Close it with `sparewheel breaker close --reason ... --resume` (fence the nodes that were only drained) "
            "or `--skip-backlog` (leave them drained)."
        )
    if status.closed_at is None:
        return "The breaker is closed and never was open."
    return f"The breaker is closed, since {format_time(status.closed_at)[:19]}Z. {end_words(status)}"
