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
from policies.files import Judged, judge_documents
from policies.read import ReadError, read_file
from policies.settings import FILE, SettingsError

_out = Console(soft_wrap=not sys.stdout.isatty(), width=None if sys.stdout.isatty() else 160)
_err = Console(stderr=True, soft_wrap=True)


def main(
    files: Annotated[
        list[Path] | None, typer.Argument(metavar="[FILE]...", help="state, preview, manifests, stack's file")
    ] = None,
    environment: Annotated[str, typer.Option(help="environment, where the files name none")] = "",
    settings: Annotated[Path, typer.Option(help="levels and exceptions")] = FILE,
    output: Annotated[
        Literal["table", "json"], typer.Option("--output", "-o", help="table or json; a list where no file is named")
    ] = "table",
) -> None:
    """Judge what a stack declares: `pulumi stack export`, `pulumi preview --json --show-sames`, manifests, a stack's
    file; beside them the JSON of `sparewheel spares` and `sparewheel remediations`. Without a file each stack's file is
    judged by itself."""
    groups = [files] if files else [[path] for path in sorted(settings.parent.glob("Pulumi.*.yaml"))]
    try:
        if not groups:
            raise ReadError(f"there is no stack's file in {settings.parent}; name what is to be judged")
        verdicts = [judge_documents(list(map(read_file, group)), environment, settings, _now()) for group in groups]
    except (ReadError, SettingsError) as error:
        _err.print(f"error: {error}", style="red", markup=False, highlight=False)
        raise typer.Exit(2) from None
    if output == "json":
        found = [
            report.as_json(one.verdict, one.resources, one.environment, production=one.production) for one in verdicts
        ]
        _out.print_json(json.dumps(found[0] if files else found))
    else:
        for judged in verdicts:
            _show(judged)
    raise typer.Exit(int(any(judged.verdict.stops for judged in verdicts)))


def _now() -> datetime:
    return datetime.now(UTC)


def _show(judged: Judged) -> None:
    verdict, name, count = judged.verdict, judged.environment, judged.resources
    if verdict.findings:
        _out.print(report.table(verdict))
    for rule, why in verdict.not_judged:
        _out.print(f"not judged: {rule}: {why}", markup=False, highlight=False)
    _out.print(report.summary(verdict, count, name, production=judged.production), highlight=False)


if __name__ == "__main__":
    typer.run(main)
