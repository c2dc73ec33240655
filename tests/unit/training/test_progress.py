"""What a run tells: its steps, its resume, and that telling never ends a job."""

from __future__ import annotations

import io
import json
import re
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from training.resumable.attempt import Attempt
from training.resumable.progress import (
    TRIES,
    Step,
    StepLog,
    StepsDifferError,
    now_text,
    read_steps,
    report_first_step,
    resumed_line,
    say,
)

STEP = Step(0, 1, 0.5, "aa", "bb", "2026-01-01T00:00:00.000Z")


def test_steps_are_read_back_and_a_torn_line_is_left_out(tmp_path: Path) -> None:
    path = tmp_path / "steps.jsonl"
    log = StepLog(path)
    log.append(STEP)
    log.append(replace(STEP, step=2))
    with path.open("a") as file:
        file.write('{"attempt":0,"st')
    assert read_steps(path) == {1: STEP, 2: replace(STEP, step=2)}


def test_a_step_that_ran_twice_is_the_newer_attempts(tmp_path: Path) -> None:
    log = StepLog(tmp_path / "steps.jsonl")
    for attempt in (0, 1, 0):  # the old rank 0 woke up late
        log.append(replace(STEP, attempt=attempt))
    assert read_steps(tmp_path / "steps.jsonl")[1].attempt == 1


@pytest.mark.parametrize("change", [{"loss": 0.5000000000000001}, {"samples": "ab"}])
def test_a_step_that_came_out_differently_is_an_error(tmp_path: Path, change: dict[str, float]) -> None:
    log = StepLog(tmp_path / "steps.jsonl")
    log.append(STEP)
    log.append(replace(STEP, attempt=1, **change))  # pyright: ignore[reportArgumentType]
    with pytest.raises(StepsDifferError, match=r"step 1 of .*: attempt 0 has loss 0.5 on samples aa, attempt 1 has"):
        read_steps(tmp_path / "steps.jsonl")


def test_slurm_is_told_the_first_new_step() -> None:
    commands: list[Sequence[str]] = []
    thread = report_first_step(Attempt(42, 1), 118, 119, run=commands.append)
    assert thread is not None
    thread.join()
    (command,) = commands
    assert command[:3] == ["scontrol", "update", "JobId=42"]
    told = json.loads(command[3].removeprefix("Extra="))["sparewheel"]
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z", told.pop("first_step_time"))
    assert told == {"attempt": 1, "resumed_from_step": 118, "first_step": 119}
    assert " " not in command[3]


def test_a_fresh_start_is_told_as_resumed_from_nothing() -> None:
    commands: list[Sequence[str]] = []
    thread = report_first_step(Attempt(42, 0), None, 1, run=commands.append)
    assert thread is not None
    thread.join()
    assert '"resumed_from_step":null' in commands[0][3]


@pytest.mark.parametrize(
    "error",
    [
        FileNotFoundError("scontrol"),
        subprocess.TimeoutExpired("scontrol", 20),
        subprocess.CalledProcessError(1, "scontrol", stderr="slurm_update error: Invalid user id"),
    ],
)
def test_a_failure_to_tell_is_a_warning(capsys: pytest.CaptureFixture[str], error: Exception) -> None:
    tries: list[Sequence[str]] = []

    def fail(command: Sequence[str]) -> None:
        tries.append(command)
        raise error

    thread = report_first_step(Attempt(42, 1), 118, 119, run=fail)
    assert thread is not None
    thread.join()
    assert len(tries) == TRIES
    out = capsys.readouterr().out
    assert out.startswith("warning: Slurm wasn't told of the first new step")
    if isinstance(error, subprocess.CalledProcessError):
        assert "Invalid user id" in out


def test_outside_slurm_nobody_is_told() -> None:
    assert report_first_step(Attempt(0, 0), None, 1, run=lambda _command: pytest.fail("told")) is None


def test_the_line_for_the_researcher() -> None:
    assert resumed_line(Attempt(7, 1), Attempt(7, 0), 118) == (
        "attempt 1: resumed from step 118 (checkpoint of attempt 0), first new step 119"
    )
    assert resumed_line(Attempt(7, 0), None, 0) == "attempt 0: starting from scratch, first new step 1"
    assert "checkpoint of attempt 3 of job 6" in resumed_line(Attempt(7, 0), Attempt(6, 3), 118)


def test_a_closed_log_is_no_error(monkeypatch: pytest.MonkeyPatch) -> None:
    class Closed(io.StringIO):
        def write(self, _text: str) -> int:
            raise BrokenPipeError

    monkeypatch.setattr(sys, "stdout", Closed())
    say("into the void")


def test_times_are_utc_with_milliseconds() -> None:
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z", now_text())
