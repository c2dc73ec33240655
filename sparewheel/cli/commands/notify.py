"""``sparewheel notify test``: test messages over the real routes, sent by the controller, which has the secrets."""

from __future__ import annotations

import getpass
import secrets
from typing import Annotated

import typer
from rich.table import Table
from rich.text import Text

from sparewheel.api.names import ANNOTATION_NOTIFY_TEST, NAMESPACE, POLICY_NAME
from sparewheel.api.remediation_policy import NotifyTest, RemediationPolicy
from sparewheel.cli.common import TRY, CommandError, Output, out, print_json, read, run, show
from sparewheel.clock import Clock, SystemClock
from sparewheel.kube.client import KubeClient
from sparewheel.kube.port import REMEDIATION_POLICY, Kube, NotFoundError
from sparewheel.remediation.decide.trial import request

LOOK_EVERY_SECONDS = 0.5
ANSWER_SECONDS = 60.0


def register(app: typer.Typer) -> None:
    """Add the commands."""
    group = typer.Typer(no_args_is_help=True, help="Messages and their routes.")
    group.command(name="test")(send_test)
    app.add_typer(group, name="notify", rich_help_panel=TRY)

    @group.callback()
    def _() -> None:  # pyright: ignore[reportUnusedFunction] - keeps `test` a command of its own
        """Messages and their routes."""


def send_test(
    route: Annotated[str, typer.Option(help="name of the route; without it, all of them")] = "",
    user: Annotated[str, typer.Option(help="whom the routes for owners tell")] = "",
    output: Output = "table",
) -> None:
    """Send a test message over the real routes and say which were delivered. Exit 1 when one was not."""

    async def command(kube: KubeClient) -> NotifyTest:
        return await ask(kube, SystemClock(), request(secrets.token_hex(8), route, user, getpass.getuser()))

    answer = run(command)
    if output == "json":
        print_json([result.model_dump(mode="json", by_alias=True) for result in answer.results])
    else:
        show(table(answer))
    if not answer.results and output == "table":
        out.print("There is no route; add one under remediation.routes of the stack's file.")
    if not all(result.delivered for result in answer.results):
        raise typer.Exit(1)


async def ask(kube: Kube, clock: Clock, wanted: str) -> NotifyTest:
    """Put the request on the policy, wait for the controller's answer, and take the request away again."""
    await _annotate(kube, wanted)
    began = clock.monotonic_seconds()
    try:
        while clock.monotonic_seconds() - began < ANSWER_SECONDS:
            body = await kube.get(REMEDIATION_POLICY, POLICY_NAME, NAMESPACE)
            answer = read(REMEDIATION_POLICY, RemediationPolicy, body).status.notify_test
            if answer.request == wanted:
                return answer
            await clock.sleep(LOOK_EVERY_SECONDS)
    finally:
        await _annotate(kube, None)  # nothing stays on an object that the stack declares
    raise CommandError(
        f"the controller did not answer within {ANSWER_SECONDS:.0f} s; "
        f"see whether its pods run in namespace {NAMESPACE}"
    )


async def _annotate(kube: Kube, value: str | None) -> None:
    patch = {"metadata": {"annotations": {ANNOTATION_NOTIFY_TEST: value}}}
    try:
        await kube.merge_patch(REMEDIATION_POLICY, POLICY_NAME, patch, NAMESPACE)
    except NotFoundError:
        raise CommandError(f"there is no policy {POLICY_NAME} in namespace {NAMESPACE}; run pulumi up first") from None


def table(answer: NotifyTest) -> Table:
    found = Table("route", "kind", "result", "why", title="Test messages", title_justify="left")
    for result in answer.results:
        told = Text("delivered", style="green") if result.delivered else Text("failed", style="red")
        found.add_row(result.route, result.kind or "-", told, Text(result.error))
    return found
