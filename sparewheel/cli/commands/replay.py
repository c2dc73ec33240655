"""``sparewheel replay``: a recorded kernel log through the agent's own classifier; what it would have done, and why."""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import datetime
from pathlib import Path
from typing import Annotated

import typer

from sparewheel.api.enums import Action, NodeActionKind
from sparewheel.cli import log_files, overrides
from sparewheel.cli.common import TRY, CommandError, Output, err, fail, out
from sparewheel.cli.replay_tables import Found
from sparewheel.faults.replay import Replay, ReplayedFault

PROGRESS_SECONDS = 2.0


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command(rich_help_panel=TRY)(replay)


def replay(
    files: Annotated[list[str], typer.Argument(metavar="FILE...", help="logs, plain or gzip; - is standard input")],
    output: Output = "table",
    policy: Annotated[Path | None, typer.Option(help="a RemediationPolicy as YAML: overrides, ladder")] = None,
    stack_file: Annotated[Path | None, typer.Option(help="Pulumi.<env>.yaml: overrides, ladder")] = None,
) -> None:
    """Say which faults a recorded kernel log holds and what would have been done. Offline: no cluster is asked.

    Reads what dmesg and journalctl print (short, iso, json) and records of /dev/kmsg, and tells them apart by itself.
    Each fault stands at its line; one told in several lines at the line that completes it.
    """
    try:
        words = _words(policy, stack_file)
        faults = (item for name in files for item in _faults(name, words.actions))
        if output == "json":
            _print_json(faults)
        else:
            _print_table(faults, words.rungs)
    except CommandError as error:
        fail(error)


def _words(policy: Path | None, stack_file: Path | None) -> overrides.Words:
    """Both may be given; the policy is what the cluster goes by, so it wins."""
    words = overrides.Words() if stack_file is None else overrides.of_stack(stack_file)
    if policy is None:
        return words
    ruling = overrides.of_policy(policy)
    return overrides.Words({**words.actions, **ruling.actions}, ruling.rungs)


def _faults(name: str, actions: Mapping[str, Action]) -> Iterator[tuple[str, ReplayedFault]]:
    log = Replay(actions, datetime.now().astimezone())
    found = 0
    with log_files.opened(name) as read:
        for block in log_files.whole_lines(with_progress(name, read)):
            for fault in log.feed(block):
                found += 1
                yield name, fault
    _tell(name, log)


def with_progress(
    name: str, read: Callable[[], bytes], monotonic_seconds: Callable[[], float] = time.monotonic
) -> Callable[[], bytes]:
    """``read``, with a line on standard error every two seconds."""
    next_seconds = monotonic_seconds() + PROGRESS_SECONDS
    done_bytes = 0

    def reading() -> bytes:
        nonlocal next_seconds, done_bytes
        block = read()
        done_bytes += len(block)
        if monotonic_seconds() >= next_seconds:
            next_seconds = monotonic_seconds() + PROGRESS_SECONDS
            err.print(f"{name}: {done_bytes / 1e6:.0f} MB read", markup=False, highlight=False)
        return block

    return reading


def _tell(name: str, log: Replay) -> None:
    """What was left out of a log, on standard error. Raises CommandError when it is no log at all."""
    if log.lines == 0:
        err.print(f"{name} is empty", markup=False)
    elif not log.form and log.unread:
        raise CommandError(
            f"{name}: no line is of a form that is known; give what dmesg or journalctl (short, iso, json) prints, "
            "or records of /dev/kmsg"
        )
    told = {
        "claim a fault but cannot be read; the agent counts them": log.malformed,
        "say what a driver would but come from user space: no faults": log.forged,
        "tell a fault behind something else: not believed; give the log as dmesg or journalctl prints it": log.behind,
        "are part of no record": log.unread if log.form else 0,
    }
    for what, count in told.items():
        if count:
            err.print(f"{name}: {count} line(s) {what}", markup=False, highlight=False)


def _print_json(faults: Iterator[tuple[str, ReplayedFault]]) -> None:
    """A list, written as it is found, and whole also when a log ends in an error."""
    begun = False
    try:
        for name, fault in faults:
            sys.stdout.write(f"{',' if begun else '['}\n{json.dumps({**fault.as_json(), 'file': name})}")
            begun = True
    except CommandError:
        sys.stdout.write("\n]\n" if begun else "")
        raise
    sys.stdout.write("\n]\n" if begun else "[]\n")


def _print_table(faults: Iterator[tuple[str, ReplayedFault]], rungs: Sequence[NodeActionKind]) -> None:
    found = Found(rungs)
    for name, fault in faults:
        found.add(name, fault)
    if found.faults:
        out.print(found.table())
    for sentence in found.sentences() if found.faults else ["No faults."]:
        out.print(sentence, markup=False, highlight=False)
