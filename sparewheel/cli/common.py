"""What the commands share: asking the cluster, one line for what fails, tables or JSON."""

from __future__ import annotations

import asyncio
import json
import os
import re
import sys
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Annotated, Literal, NoReturn, TypeVar

import stamina
import typer
from pydantic import ValidationError
from rich.console import Console
from rich.table import Table

from sparewheel import __version__
from sparewheel.api.base import ApiObject
from sparewheel.api.names import NAMESPACE
from sparewheel.cli.whole_words import whole_words
from sparewheel.kube.access import AccessError, from_environment
from sparewheel.kube.client import KubeClient
from sparewheel.kube.port import NODE, Json, Kube, KubeError, NotFoundError, Resource, UnavailableError

PIPE_COLUMNS = 250
"""How wide a table may be that goes into a file or another program."""
_TERMINAL = sys.stdout.isatty()
out = Console(soft_wrap=not _TERMINAL, width=None if _TERMINAL else PIPE_COLUMNS)
err = Console(stderr=True, soft_wrap=True)
"""Not wrapped: an error is one line, whose paths and addresses can be searched for and copied."""

Output = Annotated[Literal["table", "json"], typer.Option("--output", "-o", help="table or json")]
Html = Annotated[
    Path | None, typer.Option("--html", metavar="FILE", help="write a page to look at into FILE; - is standard output")
]
LOOK, ACT, TRY, SET_UP = "Look", "Act", "Try", "Set up"
"""Panels of the help, in the order in which the commands stand there."""
T = TypeVar("T")
Item = TypeVar("Item", bound=ApiObject)


class CommandError(Exception):
    """What the user did cannot be done; the message says why and what to do."""


def fail(error: Exception) -> NoReturn:
    """One line on stderr, exit 1."""
    err.print(f"error: {error}", style="red", markup=False)
    raise typer.Exit(1) from None


def run(command: Callable[[KubeClient], Awaitable[T]]) -> T:
    """Run one command against the cluster; every expected failure is one line on stderr and exit 1."""

    async def inside() -> T:
        async with KubeClient(from_environment()) as kube:
            return await command(kube)

    stamina.instrumentation.set_on_retry_hooks([])  # a try that failed is told once, as the command's error
    try:
        return asyncio.run(inside())
    except UnavailableError as error:
        fail(CommandError(f"{error}; see that the cluster is up and that KUBECONFIG names the right one"))
    except AccessError as error:
        hint = "" if os.environ.get("KUBECONFIG") else " (README, When something happened, says how to get it)"
        fail(CommandError(f"{error}{hint}"))
    except KubeError as error:
        fail(CommandError(f"{error}{_next_step(error)}"))
    except CommandError as error:
        fail(error)


def _next_step(error: KubeError) -> str:
    """What to do about a refusal; the others say it themselves."""
    refused = re.search(r": 403 ", str(error)) is not None
    return "; the user of this kubeconfig may not do that: use another, or have its role changed" if refused else ""


async def all_of(kube: Kube, resource: Resource, model: type[Item]) -> list[Item]:
    namespace = NAMESPACE if resource.namespaced else None
    listing = await kube.list(resource, namespace)
    return [read(resource, model, item) for item in listing.items]


def read(resource: Resource, model: type[Item], body: Json) -> Item:
    try:
        return model.from_wire(body)
    except ValidationError as error:
        raise CommandError(
            f"{resource.kind} objects of another version are in the cluster ({error.error_count()} fields differ); "
            f"use the sparewheel of the controller's version, this one is {__version__}"
        ) from error


def show(table: Table) -> None:
    """Print it whole: on a terminal that is too narrow its lines go on below rather than lose what stands there."""
    out.print(whole_words(table, out.width), crop=False)


def write_page(file: Path, page: str) -> None:
    """One file with nothing to fetch: it can be mailed, or put beside an incident's report."""
    if str(file) == "-":
        sys.stdout.write(page)
        return
    try:
        file.write_text(page, "utf-8")
    except OSError as error:
        raise CommandError(f"{file} can't be written ({error.strerror}); name another file after --html") from None
    out.print(f"Written to {file}; open it in a browser.", markup=False)


def print_json(data: object) -> None:
    out.print_json(json.dumps(data))


def checked_name(text: str) -> str:
    """A name as it may stand in a request: an empty one or a path would ask for something else."""
    if not re.fullmatch(r"[a-z0-9]([-a-z0-9.]{0,251}[a-z0-9])?", text):
        raise CommandError(f"{text!r} is no name: small letters, digits, hyphens and dots")
    return text


async def node_body(kube: Kube, name: str) -> dict[str, dict[str, dict[str, str]]]:
    try:
        return await kube.get(NODE, checked_name(name))
    except NotFoundError:
        raise CommandError(f"there is no node {name}; `sparewheel status` lists the nodes") from None
