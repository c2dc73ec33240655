"""What a run says about itself: a line per step on the shared disk, and its first new step to Slurm."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from .attempt import Attempt

SCONTROL_SECONDS = 20
TRIES = 3


@dataclass(frozen=True)
class Step:
    """One line of the log. `samples`: digest of the global batch; `history`: chained over all steps up to this one."""

    attempt: int
    step: int
    loss: float
    samples: str
    history: str
    time: str


class StepLog:
    """The run's `steps.jsonl`. Rank 0 appends; a line is one write, so a reader sees it whole or not at all.

    A full disk costs lines, never the training: a line that was cut short ends where the next one begins.
    """

    def __init__(self, path: Path) -> None:
        self._descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_APPEND, 0o644)
        size = os.fstat(self._descriptor).st_size
        self._torn = size > 0 and os.pread(self._descriptor, 1, size - 1) != b"\n"
        self._told = False

    def append(self, step: Step) -> None:
        line = b"\n" * self._torn + json.dumps(asdict(step), separators=(",", ":")).encode() + b"\n"
        try:
            written = os.write(self._descriptor, line)
        except OSError as error:
            if not self._told:
                say(f"warning: step {step.step} isn't in the step log ({error}); training goes on")
            self._told = True
            return
        self._torn, self._told = written < len(line), False


class StepsDifferError(RuntimeError):
    """A step that ran twice gave two results."""


def parse_step(line: str) -> Step | None:
    """One line of the log; None for the last line of a writer that was killed."""
    try:
        return Step(**json.loads(line))
    except (ValueError, TypeError):
        return None


def read_steps(path: Path) -> dict[int, Step]:
    """Step number to its line, of the newest attempt that ran it. StepsDifferError if its loss or samples changed."""
    steps: dict[int, Step] = {}
    for line in path.read_text().splitlines():
        step = parse_step(line)
        if step is None:
            continue
        seen = steps.get(step.step)
        if seen is not None and (seen.loss, seen.samples) != (step.loss, step.samples):
            raise StepsDifferError(
                f"step {step.step} of {path}: attempt {seen.attempt} has loss {seen.loss!r} on samples {seen.samples}, "
                f"attempt {step.attempt} has {step.loss!r} on {step.samples}"
            )
        if seen is None or seen.attempt <= step.attempt:
            steps[step.step] = step
    return steps


def now_text() -> str:
    """The time of day, RFC 3339, UTC, with milliseconds."""
    return datetime.now(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def first_step_report(attempt: Attempt, resumed_from_step: int | None, first_step: int, first_step_time: str) -> str:
    """What the job's `Extra` field gets: the platform reads from it that the job has really resumed."""
    content: dict[str, Any] = {
        "attempt": attempt.number,
        "resumed_from_step": resumed_from_step,
        "first_step": first_step,
        "first_step_time": first_step_time,
    }
    return json.dumps({"sparewheel": content}, separators=(",", ":"))


Run = Callable[[Sequence[str]], None]


def run_command(command: Sequence[str]) -> None:
    """Run it; CalledProcessError (its output attached), TimeoutExpired or OSError where it fails."""
    subprocess.run(command, check=True, capture_output=True, text=True, timeout=SCONTROL_SECONDS)


def report_first_step(
    attempt: Attempt, resumed_from_step: int | None, first_step: int, run: Run = run_command
) -> threading.Thread | None:
    """Tell Slurm about the first new step, beside the training. A failure is a warning, never the end of a job.

    None outside Slurm. The thread is for whoever wants to wait for it.
    """
    if attempt.job == 0:
        return None
    extra = first_step_report(attempt, resumed_from_step, first_step, now_text())
    command = ["scontrol", "update", f"JobId={attempt.job}", f"Extra={extra}"]

    def tell() -> None:
        for left in reversed(range(TRIES)):
            try:
                run(command)
            except (OSError, subprocess.SubprocessError) as error:
                said = getattr(error, "stderr", None) or error
                if not left:
                    say(f"warning: Slurm wasn't told of the first new step ({str(said).strip()}); training goes on")
            else:
                return

    thread = threading.Thread(target=tell, name="report-first-step", daemon=True)
    thread.start()
    return thread


def resumed_line(attempt: Attempt, source: Attempt | None, step: int) -> str:
    """The line that a researcher looks for in the job's log."""
    if source is None:
        return f"attempt {attempt.number}: starting from scratch, first new step {step + 1}"
    origin = f"step {step} (checkpoint of {source.seen_from(attempt)})"
    return f"attempt {attempt.number}: resumed from {origin}, first new step {step + 1}"


def say(line: str) -> None:
    """Print to the job's log. Slurm may have closed it already (srun is gone with its node): that is no error."""
    try:
        sys.stdout.write(line + "\n")
        sys.stdout.flush()
    except (OSError, ValueError):
        pass
