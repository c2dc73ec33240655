"""``sparewheel``: gathers the commands. Each asks through the ports and prints; nothing is decided there."""

from __future__ import annotations

import typer

from sparewheel.cli.commands import (
    breaker,
    cancel,
    drill,
    host,
    inject,
    notify,
    plan,
    pool,
    replace,
    replay,
    reports,
    spares,
)
from sparewheel.cli.usage import PlainGroup

app = typer.Typer(
    cls=PlainGroup,
    no_args_is_help=True,
    add_completion=False,
    help="Asks and drives a Sparewheel cluster (KUBECONFIG).",
)
for group in (
    reports,
    plan,
    replace,
    cancel,
    breaker,
    host,
    drill,
    inject,
    pool,
    spares,
    notify,
    replay,
):
    group.register(app)


def main() -> None:
    """Entry point."""
    app(prog_name="sparewheel")
