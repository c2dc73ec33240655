"""``sparewheel``: gathers the commands. Each asks through the ports and prints; nothing is decided there."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Sequence
from importlib import import_module
from typing import Final

import typer

from sparewheel.cli.usage import PlainGroup

MODULES: Final = {
    "status": "reports",
    "remediations": "reports",
    "timeline": "reports",
    "why": "reports",
    "plan": "plan",
    "replace": "replace",
    "cancel": "cancel",
    "breaker": "breaker",
    "host": "host",
    "drill": "drill",
    "inject": "inject",
    "pool": "pool",
    "spares": "spares",
    "notify": "notify",
    "replay": "replay",
}
"""Commands in the order in which they are shown, and the module of ``commands`` that registers each."""


def app_of(modules: Iterable[str]) -> typer.Typer:
    """The command line with the commands of these modules."""
    app = typer.Typer(
        cls=PlainGroup,
        no_args_is_help=True,
        add_completion=False,
        help="Asks and drives a Sparewheel cluster (KUBECONFIG).",
    )
    app.callback()(_root)
    for name in dict.fromkeys(modules):
        import_module(f"sparewheel.cli.commands.{name}").register(app)
    return app


def _root() -> None:
    """One command alone is a group too, so that it keeps its name."""


def every_command() -> typer.Typer:
    """The whole command line."""
    return app_of(MODULES.values())


def needed(arguments: Sequence[str]) -> Iterable[str]:
    """The module of the command that is asked for: the others' imports would only take time. All where none is."""
    asked = arguments[0] if arguments else ""
    return [MODULES[asked]] if asked in MODULES else MODULES.values()


def main() -> None:
    """Entry point."""
    app_of(needed(sys.argv[1:]))(prog_name="sparewheel")
