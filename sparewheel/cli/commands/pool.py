"""``sparewheel pool``: GPU pools of an environment's stack file."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from sparewheel.cli.common import SET_UP, fail, out


def register(app: typer.Typer) -> None:
    """Add the group."""
    group = typer.Typer(no_args_is_help=True, help="GPU pools of an environment's stack file.")
    group.command("add")(pool_add)
    app.add_typer(group, name="pool", rich_help_panel=SET_UP)


def pool_add(
    name: Annotated[str, typer.Argument(metavar="NAME")],
    stack: Annotated[Path, typer.Option("--stack-file", "-f", help="the environment's Pulumi.<env>.yaml")],
    size: Annotated[int, typer.Option(min=1, help="nodes that take work")],
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
        fail(error)
    out.print(f"Pool {name} added to {stack}; `pulumi preview` shows what it makes.")
    if not spares:
        out.print(f"It has no spares (--spares): a bad node of {name} leaves the pool short until it is repaired.")
