"""``sparewheel host``: machines one by one: list, release from quarantine, quarantine a spare."""

from __future__ import annotations

import getpass
from datetime import UTC, datetime
from typing import Annotated

import typer

from sparewheel.api.gpu_host import GpuHost, HostRequest, HostVerb
from sparewheel.api.names import ANNOTATION_HOST_ANSWER, ANNOTATION_HOST_REQUEST, NAMESPACE
from sparewheel.api.remediation import Remediation
from sparewheel.capacity.requests import refusal
from sparewheel.cli import tables
from sparewheel.cli.common import ACT, CommandError, Output, all_of, checked_name, out, print_json, read, run, show
from sparewheel.clock import Clock, SystemClock
from sparewheel.kube.client import KubeClient
from sparewheel.kube.port import GPU_HOST, REMEDIATION, Kube, NotFoundError

LOOK_SECONDS = 1.0
Reason = Annotated[str, typer.Option(help="why; stands in the host's status")]
Wait = Annotated[float, typer.Option(min=0, help="seconds to wait for the outcome; 0: don't wait")]


def register(app: typer.Typer) -> None:
    """Add the group."""
    group = typer.Typer(no_args_is_help=True, help="Machines: list, release from quarantine, quarantine.")
    group.command("list")(host_list)
    group.command("release")(release)
    group.command("quarantine")(quarantine)
    app.add_typer(group, name="host", rich_help_panel=ACT)


def host_list(
    lemons: Annotated[bool, typer.Option("--lemons", help="only hosts that struck too often")] = False,
    output: Output = "table",
) -> None:
    """All machines, what they do, and why those in quarantine are there."""

    async def command(kube: KubeClient) -> None:
        hosts = [host for host in await all_of(kube, GPU_HOST, GpuHost) if host.status.lemon or not lemons]
        if output == "json":
            print_json([host.to_wire() for host in hosts])
        else:
            show(tables.machines(hosts, await all_of(kube, REMEDIATION, Remediation), datetime.now(UTC)))

    run(command)


def release(
    host: Annotated[str, typer.Argument(metavar="HOST")],
    reason: Reason,
    clear_lemon: Annotated[
        bool, typer.Option("--clear-lemon", help="it struck too often; its cause was found")
    ] = False,
    repaired: Annotated[
        bool, typer.Option("--repaired", help="you vouch that it was repaired without a reboot")
    ] = False,
    wait: Wait = 600.0,
) -> None:
    """Bring a repaired host back as a spare, once it joined and passed all checks."""
    wish = HostRequest(
        verb=HostVerb.RELEASE,
        by=getpass.getuser(),
        time=datetime.now(UTC),
        reason=reason,
        clear_lemon=clear_lemon,
        repaired=repaired,
    )
    run(lambda kube: asked(kube, SystemClock(), checked_name(host), wish, wait))


def quarantine(host: Annotated[str, typer.Argument(metavar="HOST")], reason: Reason, wait: Wait = 60.0) -> None:
    """Take a spare out of use until it is released."""
    wish = HostRequest(verb=HostVerb.QUARANTINE, by=getpass.getuser(), time=datetime.now(UTC), reason=reason)
    run(lambda kube: asked(kube, SystemClock(), checked_name(host), wish, wait))


async def asked(kube: Kube, clock: Clock, name: str, wish: HostRequest, wait_seconds: float) -> None:
    """Ask, then wait for the outcome and print it. CommandError when it is refused or takes longer."""
    await ask(kube, name, wish)
    if not wait_seconds:
        out.print(f"Asked; `sparewheel host list` shows host {name}.", markup=False)
        return
    deadline = clock.monotonic_seconds() + wait_seconds
    while clock.monotonic_seconds() < deadline:
        body = await kube.get(GPU_HOST, name, NAMESPACE)
        annotations = body["metadata"].get("annotations", {})
        if ANNOTATION_HOST_REQUEST not in annotations:
            answer = annotations.get(ANNOTATION_HOST_ANSWER, "done")
            if answer.startswith("refused: "):
                raise CommandError(answer.removeprefix("refused: "))
            out.print(f"Host {name}: {answer}.", markup=False)
            return
        await clock.sleep(LOOK_SECONDS)
    raise CommandError(
        f"host {name} is not done after {wait_seconds:g} s and goes on; `sparewheel status` says what is waited for"
    )


async def ask(kube: Kube, name: str, wish: HostRequest) -> None:
    """Write the request. CommandError when it is clear already that it can't be done."""
    try:
        host = read(GPU_HOST, GpuHost, await kube.get(GPU_HOST, name, NAMESPACE))
    except NotFoundError:
        raise CommandError(f"there is no host {name}; `sparewheel host list` lists them") from None
    if not wish.reason.strip():
        raise CommandError("a reason is needed: `--reason 'why'`; it stands in the host's status")
    refused = refusal(host, wish)
    if refused:
        raise CommandError(refused)
    annotations = {ANNOTATION_HOST_REQUEST: wish.model_dump_json(by_alias=True), ANNOTATION_HOST_ANSWER: None}
    patch = {"metadata": {"uid": host.metadata.uid, "annotations": annotations}}
    await kube.merge_patch(GPU_HOST, name, patch, NAMESPACE)
