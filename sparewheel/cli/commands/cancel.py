"""``sparewheel cancel``: a person calls an incident off."""

from __future__ import annotations

import getpass
from datetime import UTC, datetime
from typing import Annotated

import typer

from sparewheel.api.base import format_time
from sparewheel.api.names import ANNOTATION_CANCEL, NAMESPACE
from sparewheel.api.remediation import Remediation
from sparewheel.cli.common import ACT, CommandError, checked_name, out, read, run
from sparewheel.kube.client import KubeClient
from sparewheel.kube.port import REMEDIATION, Kube, NotFoundError
from sparewheel.remediation.decide.cancel import past_recall
from sparewheel.remediation.decide.record import is_open


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command(rich_help_panel=ACT)(cancel)


def cancel(
    name: Annotated[str, typer.Argument(metavar="NAME")],
    reason: Annotated[str, typer.Option(help="why; stands in the record")],
) -> None:
    """Call the incident NAME off: what was not done yet is not done, what is ours on the node is taken back."""

    async def command(kube: KubeClient) -> None:
        await ask_to_cancel(kube, checked_name(name), getpass.getuser(), reason, datetime.now(UTC))
        out.print(
            f"{name} is called off; `sparewheel timeline {name}` shows its end, once no struck job process is left."
        )

    run(command)


async def ask_to_cancel(kube: Kube, name: str, who: str, reason: str, now: datetime) -> None:
    """Write the wish onto this very record. CommandError when it is too late, or nothing is to be called off."""
    try:
        record = read(REMEDIATION, Remediation, await kube.get(REMEDIATION, name, NAMESPACE))
    except NotFoundError:
        raise CommandError(f"there is no remediation {name}; `sparewheel remediations` lists them") from None
    if not is_open(record):
        raise CommandError(f"{name} has ended already ({record.status.outcome.value}); there is nothing to call off")
    late = past_recall(record.status)
    if late:
        raise CommandError(f"{name} can't be called off any more: {late}; it goes on to its end by itself")
    if not reason.strip():
        raise CommandError("a reason is needed: `--reason 'why'`; it stands in the record")
    wish = f"{who} at {format_time(now)}: {' '.join(reason.split())[:200]}"
    patch = {"metadata": {"uid": record.metadata.uid, "annotations": {ANNOTATION_CANCEL: wish}}}
    await kube.merge_patch(REMEDIATION, name, patch, NAMESPACE)
