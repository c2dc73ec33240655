"""``sparewheel``: gathers the commands. Each asks through the ports and prints; nothing is decided there."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Sequence
from importlib import import_module
from typing import Annotated, Final

import typer

from sparewheel import __version__
from sparewheel.cli.usage import PlainGroup

MODULES: Final = {
    "status": "reports",
    "remediations": "reports",
    "timeline": "reports",
    "why": "reports",
    "report": "report",
    "plan": "plan",
    "spares": "spares",
    "replace": "replace",
    "cancel": "cancel",
    "host": "host",
    "breaker": "breaker",
    "drill": "drill",
    "inject": "inject",
    "notify": "notify",
    "replay": "replay",
    "pool": "pool",
}
"""Commands in the order in which they are shown, and the module of ``commands`` that registers each."""


EXAMPLES: Final = (
    "Woken up? `sparewheel status`, then `sparewheel timeline NAME` of what is open.",
    "A job stopped? `sparewheel why JOBID`.",
    "A page for the morning: `sparewheel report --html week.html`.",
    "What would it do? `sparewheel plan NODE` touches nothing.",
)


def app_of(modules: Iterable[str]) -> typer.Typer:
    """The command line with the commands of these modules."""
    app = typer.Typer(
        cls=PlainGroup,
        no_args_is_help=True,
        context_settings={"help_option_names": ["-h", "--help"]},
        help="Asks and drives a Sparewheel cluster (KUBECONFIG).",
        epilog="\n\n".join(EXAMPLES),
    )
    app.callback()(_root)
    for name in dict.fromkeys(modules):
        import_module(f"sparewheel.cli.commands.{name}").register(app)
    return app


def _say_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"sparewheel {__version__}")
        raise typer.Exit


def _root(
    *,
    version: Annotated[
        bool, typer.Option("--version", callback=_say_version, is_eager=True, help="Show the version and exit.")
    ] = False,
) -> None:
    """One command alone is a group too, so that it keeps its name."""


def every_command() -> typer.Typer:
    """The whole command line."""
    return app_of(MODULES.values())


def needed(arguments: Sequence[str]) -> Iterable[str]:
    """The module of the command that is asked for: the others' imports would only take time. All where none is."""
    asked = arguments[0] if arguments else ""
    if asked == "--version":
        return []
    return [MODULES[asked]] if asked in MODULES else MODULES.values()


def main() -> None:
    """Entry point."""
    app_of(needed(sys.argv[1:]))(prog_name="sparewheel")
