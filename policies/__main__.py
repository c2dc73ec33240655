"""``python -m policies FILE...``: judges files offline; exits 1 where something mandatory is wrong, 2 on a bad file."""

from __future__ import annotations

import json
import sys
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated, Literal

import typer
from rich.console import Console

from policies import report
from policies.judge import NAMES, judge
from policies.model import Given
from policies.read import Document, ReadError, read_file
from policies.settings import FILE, Kind, SettingsError, load

_out = Console(soft_wrap=not sys.stdout.isatty(), width=None if sys.stdout.isatty() else 160)
_err = Console(stderr=True, soft_wrap=True)


def main(
    files: Annotated[list[Path], typer.Argument(metavar="FILE...", help="state, preview, manifests, stack's file")],
    environment: Annotated[str, typer.Option(help="environment, where the files name none")] = "",
    settings: Annotated[Path, typer.Option(help="levels and exceptions")] = FILE,
    output: Annotated[Literal["table", "json"], typer.Option("--output", "-o", help="table or json")] = "table",
) -> None:
    """Judge what a stack declares: `pulumi stack export`, `pulumi preview --json --show-sames`, manifests, a stack's
    file; beside them the JSON of `sparewheel spares` and `sparewheel remediations`."""
    try:
        documents = [read_file(path) for path in files]
        name = _environment(documents, environment)
        of_stack = load(settings, NAMES).of(name)
    except (ReadError, SettingsError) as error:
        _err.print(f"error: {error}", style="red", markup=False, highlight=False)
        raise typer.Exit(2) from None
    resources = [one for document in documents for one in document.resources]
    given = Given(
        now=datetime.now(UTC),
        production=of_stack.kind is Kind.PRODUCTION,
        whole=any(document.whole for document in documents),
        records=any(document.records for document in documents),
        spares_needed={pool: need for document in documents for pool, need in document.spares_needed.items()},
    )
    verdict = judge(resources, of_stack, given)
    if output == "json":
        _out.print_json(json.dumps(report.as_json(verdict, len(resources), name, production=given.production)))
    else:
        if verdict.findings:
            _out.print(report.table(verdict))
        for rule, why in verdict.not_judged:
            _out.print(f"not judged: {rule}: {why}", markup=False, highlight=False)
        _out.print(report.summary(verdict, len(resources), name, production=given.production), highlight=False)
    raise typer.Exit(int(verdict.stops))


def _environment(documents: list[Document], asked: str) -> str:
    named = sorted({document.environment for document in documents if document.environment})
    if len(named) > 1:
        raise ReadError(f"the files are of several stacks ({', '.join(named)}); judge one stack at a time")
    if asked and named and asked != named[0]:
        raise ReadError(f"--environment says {asked}, the files are of {named[0]}; leave the option out")
    return asked or (named[0] if named else "")


if __name__ == "__main__":
    typer.run(main)
