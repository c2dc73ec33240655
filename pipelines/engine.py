"""Runs Pulumi's command line for one stack: looks as data, changes as they come, refusals with the next step."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from types import FrameType

from pipelines.processes import end_session, is_pulumi
from pipelines.refusals import next_step
from pipelines.steps import Look, errors_of, read_look, short_name
from policies.values import fields, items, text


class EngineError(Exception):
    """Pulumi refused; the message says what, and the next step."""


@dataclass(frozen=True)
class Engine:
    """``folder`` is the project's; where the state is and how it is decrypted, the environment says."""

    folder: Path
    stack: str
    env: Mapping[str, str]

    def look(self, *arguments: str) -> Look:
        """``pulumi preview`` or ``refresh --preview-only``; changes nothing and takes no lock."""
        done = self._run(*arguments, "--json", "--stack", self.stack)
        look = read_look(done.returncode, done.stdout, done.stderr)
        if look.error:
            return Look(look.changes, look.unchanged, self._with_next_step(look.error), look.text)
        return look

    def change(self, *arguments: str) -> None:
        """``pulumi up`` and the like, its output shown as it comes. EngineError where it fails."""
        said: list[str] = []
        process = subprocess.Popen(
            ["pulumi", *arguments, "--stack", self.stack, "--non-interactive", "--color=never"],
            cwd=self.folder,
            env=dict(self.env),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            start_new_session=True,  # a stop reaches Pulumi once, from here: a second one would leave its lock
        )
        with _stops_go_to(process):
            for line in process.stdout or ():
                sys.stdout.write(line)
                sys.stdout.flush()
                said.append(line)
            code = process.wait()
        end_session(process.pid)
        if code != 0:
            why = errors_of(["".join(said)]) or f"pulumi {arguments[0]} ended with exit code {code}"
            raise EngineError(self._with_next_step(why))

    def make(self) -> None:
        """``pulumi stack init``. EngineError where it fails."""
        done = self._run("stack", "init", self.stack)
        if done.returncode != 0:
            raise EngineError(self._with_next_step(errors_of([done.stderr]) or done.stderr.strip()))

    def interrupted(self) -> list[str]:
        """Resources whose creation, update or deletion an earlier run had begun when it was cut off."""
        done = self._run("stack", "export", "--stack", self.stack)
        if done.returncode != 0:
            raise EngineError(self._with_next_step(errors_of([done.stderr]) or done.stderr.strip()))
        pending = items(json.loads(done.stdout), "deployment", "pending_operations")
        return [short_name(text(fields(one), "resource", "urn")) for one in pending]

    def _run(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            ["pulumi", *arguments, "--non-interactive", "--color=never"],
            cwd=self.folder,
            env=dict(self.env),
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            check=False,
        )

    def _with_next_step(self, error: str) -> str:
        step = next_step(error, self.stack, socket.gethostname(), is_pulumi)
        return f"{error}\n{step}" if step else error


@contextmanager
def _stops_go_to(process: subprocess.Popen[str]) -> Iterator[None]:
    """A pipeline that is cancelled asks Pulumi to stop, which ends what it has begun and gives its lock back."""

    def ask(_number: int, _frame: FrameType | None) -> None:
        print("stopping: Pulumi ends what it has begun", file=sys.stderr)
        os.kill(process.pid, signal.SIGINT)

    before = {number: signal.signal(number, ask) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
