"""``python -m lab.demo``: set the stage, tell the story once or several times, judge it, draw it."""

from __future__ import annotations

import json
import sys
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated, Literal

import typer
from rich.console import Console
from rich.table import Table

from lab import stack
from lab.cluster.lifecycle import DataCentre
from lab.cluster.shell import CommandError
from lab.demo import picture, timeline
from lab.demo.checks import Check, judge
from lab.demo.cluster import StoryError
from lab.demo.facts import Facts
from lab.demo.receiver import Inbox, receiver
from lab.demo.researcher import ResearcherError
from lab.demo.story import STEP_SECONDS, Story
from lab.demo.summary import Runs, by_track, figures
from lab.images.ensure import ensure_images
from lab.machines.inventory import MACHINE_IP, ONCALL_PORT
from lab.paths import Paths, paths_from_environment
from lab.reach import next_lines
from lab.restore import NotHealthyError, restore
from lab.toolchain.errors import ToolchainError
from lab.toolchain.paths import REPOSITORY
from lab.toolchain.progress import note
from sparewheel.cli.pages.incident import incident_page

FOLDER = REPOSITORY / "build" / "demo"
GPUS = 16
out = Console()
ERRORS = (StoryError, ResearcherError, stack.StackError, CommandError, NotHealthyError, ToolchainError, OSError)


def stage(paths: Paths, *, warm: bool = True, all_serve: bool = False) -> None:
    """A healthy platform: the data centre up, the stack on it, the hosts of an earlier story repaired."""
    ensure_images(paths)
    DataCentre(paths).up()
    stack.choose(paths, warm_spares=warm, all_serve=all_serve)
    stack.up(paths)
    restore(paths)


def report(facts: Facts, checks: list[Check], folder: Path) -> None:
    """Files for scripts and people, and the same on the terminal."""
    folder.mkdir(parents=True, exist_ok=True)
    document = timeline.document(facts, checks)
    (folder / "timeline.json").write_text(json.dumps(document, indent=2) + "\n", "utf-8")
    bars = timeline.stage_bars(facts)
    times = timeline.step_times(facts)
    first, last = min([-10.0, *times]), max([bar.end_seconds for bar in bars] + times)
    uses = picture.gpu_use(times, gpus=GPUS, window_seconds=max(2.0, 4 * STEP_SECONDS), first=first, last=last)
    title = f"{facts.record.spec.fault.code} on {facts.bad_node}, job {facts.struck.job_id}"
    picture.draw(folder / "timeline.png", title=title, bars=by_track(bars), uses=uses, gpus=GPUS)
    table = Table("from", "to", "track", "stage", title=title, title_justify="left")
    for bar in by_track(bars):
        table.add_row(f"{bar.start_seconds:.1f} s", f"{bar.end_seconds:.1f} s", bar.track, bar.stage)
    out.print(table)
    for message in facts.messages:
        out.print(f"[bold]told[/bold] {message.received_at:%H:%M:%S} {message.body.get('title', '')}", highlight=False)
        out.print(f"  {message.body.get('text', '')}", markup=False, highlight=False)
    for check in checks:
        out.print(f"{'[green]ok  [/green]' if check.passed else '[red]FAIL[/red]'} {check.name}: {check.detail}")
    page = folder / "incident.html"
    page.write_text(incident_page(facts.record, datetime.now(UTC)), "utf-8")
    made = f"{folder / 'timeline.json'}, {folder / 'timeline.png'}, {page}"
    out.print(f"load {facts.load_seconds:.1f} s; {made}", highlight=False)


def tell_once(paths: Paths, inbox: Inbox, bite: str, folder: Path, *, warm: bool) -> tuple[Facts, list[Check]]:
    """One story, reported; leaves the bad host quarantined."""
    inbox.messages.clear()
    inbox.repeats = 0
    facts = Story(paths, inbox, bite).tell()
    checks = judge(facts, warm=warm)
    report(facts, checks, folder)
    return facts, checks


def tell(paths: Paths, runs: int, bite: str, *, warm: bool) -> Runs:
    """The story so many times, each on a healthy platform."""
    told = Runs()
    FOLDER.mkdir(parents=True, exist_ok=True)
    stage(paths, warm=warm)
    with receiver(MACHINE_IP, ONCALL_PORT, FOLDER / "told.jsonl") as inbox:
        for run in range(runs):
            if run:
                stage(paths, warm=warm)
            folder = FOLDER if runs == 1 else FOLDER / f"run-{run + 1}"
            told.add(*tell_once(paths, inbox, bite, folder, warm=warm))
    return told


def main(
    runs: Annotated[int, typer.Option(min=1, help="how often, for a median and a worst")] = 1,
    bite: Annotated[Literal["crash", "hang", "silent"], typer.Option(help="what the fault does to the rank")] = "crash",
    *,
    cold: Annotated[bool, typer.Option("--cold", help="the spare is outside the cluster and has to join")] = False,
) -> None:
    """A GPU dies; the training goes on."""
    paths = paths_from_environment()
    try:
        told = tell(paths, runs, bite, warm=not cold)
    except KeyboardInterrupt:
        note("stopping: everything is taken down; run it again to start anew")
        DataCentre(paths).down()
        raise typer.Exit(130) from None
    except ERRORS as error:
        sys.exit(f"error: {error}")
    for line in figures(told, f"{bite}, cold spares" if cold else bite):
        out.print(line, highlight=False, soft_wrap=True)
    if told.failed:
        sys.exit("\n".join(["the demo did not keep its promise:", *told.failed]))
    out.print("The data centre still runs: `make lab-status`, `make lab-down`. To go on, type here:", highlight=False)
    for line in next_lines(paths, told.records[-1]):
        out.print(f"  {line}", highlight=False, markup=False, soft_wrap=True)
    out.print("The receiver of messages ended with the demo; `python -m lab.demo.receiver` is one.", highlight=False)


if __name__ == "__main__":
    typer.run(main)
