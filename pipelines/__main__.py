"""``python -m pipelines preview|up|drift --stack NAME``: the steps of a pipeline, the same here and there.

Exit code 0: good. 1: a policy stops it, or there is drift. 2: Pulumi refused, so nothing is known.
"""

from __future__ import annotations

import os
import re
import sys
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated, Final, NoReturn

import typer

from pipelines import summary, tell
from pipelines.engine import Engine, EngineError
from policies.files import judge_documents
from policies.read import ReadError, read
from policies.settings import FILE, SettingsError

PACK: Final = Path(__file__).parents[1] / "policies" / "pack" / "__main__.py"
BUILD: Final = Path("build") / "ci"

app = typer.Typer(help="The steps of a pipeline.", no_args_is_help=True, pretty_exceptions_enable=False)
Stack = Annotated[str, typer.Option(help="the stack; it has a file stacks/Pulumi.NAME.yaml")]
Project = Annotated[Path, typer.Option(help="the project's folder")]


@app.command()
def preview(
    stack: Stack = "",
    project: Project = Path(),
    settings: Annotated[Path, typer.Option(help="levels and exceptions of the policies")] = FILE,
) -> None:
    """What an up would do and what the policies say of it; written for the pull request, where there is one."""
    engine = _engine(stack, project)
    look = engine.look("preview", "--show-sames")
    code, judged, interrupted = 2, "", []
    if not look.error:
        try:
            interrupted = engine.interrupted()
            found = judge_documents([read(look.text)], stack, settings, datetime.now(UTC))
        except (EngineError, ReadError, SettingsError) as error:
            _stop(str(error))
        judged = summary.policies(found.verdict, found.resources, production=found.production)
        code = int(found.verdict.stops)
    text = summary.preview(stack, look, judged, interrupted)
    _write(project, f"preview-{stack}.md", text)
    print(text)
    _comment(text)
    raise typer.Exit(code)


@app.command()
def up(stack: Stack = "", project: Project = Path()) -> None:
    """``pulumi up`` with the policies in the engine; after one that was cut off, the world is looked at first."""
    engine = _engine(stack, project)
    try:
        cut_off = engine.interrupted()
        if cut_off:
            print(f"An earlier run was cut off at {', '.join(cut_off)}: refreshing first.", flush=True)
            engine.change("refresh", "--yes", "--skip-preview", "--clear-pending-creates")
        engine.change("up", "--yes", "--policy-pack", str(PACK))
    except EngineError as error:
        _stop(str(error))


@app.command()
def drift(stack: Stack = "", project: Project = Path()) -> None:
    """Is all as declared, in the state and in the cluster? A healing is no drift. Else ALERT_URL is told."""
    engine = _engine(stack, project)
    with ThreadPoolExecutor() as threads:  # all three only look
        looks = [
            threads.submit(engine.look, "preview", "--expect-no-changes"),
            threads.submit(engine.look, "refresh", "--preview-only", "--expect-no-changes"),
        ]
        pending = threads.submit(engine.interrupted)
    declared, live = (look.result() for look in looks)
    try:
        cut_off = pending.result()
    except EngineError as error:
        _stop(str(error))
    text = summary.drift(stack, declared, live, cut_off)
    if not text:
        print(f"{stack}: no drift ({declared.unchanged} resources)")
        return
    print(text)
    _write(project, f"drift-{stack}.md", f"```\n{text}\n```\n")
    url = os.environ.get("ALERT_URL", "")
    try:
        if url:
            tell.alert(url, text)
        else:
            print("ALERT_URL is not set, so only this job's failure tells.", file=sys.stderr)
    except tell.TellError as error:
        print(f"warning: {error}", file=sys.stderr)
    raise typer.Exit(2 if declared.error or live.error else 1)


def _engine(stack: str, project: Path) -> Engine:
    """The engine for a stack that has a file; else one error that says which have."""
    folder = project / "stacks"
    known = sorted(path.name[len("Pulumi.") : -len(".yaml")] for path in folder.glob("Pulumi.*.yaml"))
    if not re.fullmatch(r"[A-Za-z0-9_.-]+", stack) or stack not in known:
        said = f"there is no stacks/Pulumi.{stack}.yaml" if stack else "no stack is named"
        _stop(f"{said}; name one as STACK=NAME, of: {', '.join(known) or 'none in this folder'}")
    return Engine(project, stack, os.environ)


def _write(project: Path, name: str, text: str) -> None:
    """For whoever looks into build/ci, and for the job's page on GitHub."""
    folder = project / BUILD
    folder.mkdir(parents=True, exist_ok=True)
    (folder / name).write_text(text, "utf-8")
    page = os.environ.get("GITHUB_STEP_SUMMARY")
    if page:
        with Path(page).open("a", encoding="utf-8") as handle:
            handle.write(text)


def _comment(text: str) -> None:
    """The preview stands without it: the job's page has the same text."""
    where = tell.place(os.environ)
    if where is None:
        return
    try:
        tell.comment(where, text)
    except tell.TellError as error:
        print(f"warning: {error}", file=sys.stderr)


def _stop(message: str) -> NoReturn:
    print(f"error: {message}", file=sys.stderr)
    raise typer.Exit(2)


if __name__ == "__main__":
    app()
