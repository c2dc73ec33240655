"""Runs Pulumi's command line so that it can be stopped at any moment: nothing is left running, the next run goes on."""

from __future__ import annotations

import json
import signal
import subprocess
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from pipelines.processes import end_session, is_pulumi

STOP_SECONDS = 5.0
POLL_SECONDS = 0.5
ASIDE = 10
"""A tenth of what an equal would get: enough to end beside others that never rest."""


@dataclass(frozen=True)
class Done:
    """Exit code, standard output, and standard error."""

    code: int
    out: str
    err: str


def run(
    arguments: list[str], folder: Path, env: Mapping[str, str], stdin: str | None = None, *, aside: bool = False
) -> Done:
    """To the end; a Ctrl-C ends Pulumi and every plugin it started, then goes on up.

    ``aside``: it takes what others leave of the CPUs, as if it ran on a machine of its own.
    """
    process = subprocess.Popen(
        [*(("nice", "-n", str(ASIDE)) if aside else ()), "pulumi", *arguments],
        cwd=folder,
        env=dict(env),
        stdin=subprocess.DEVNULL if stdin is None else subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    if aside:
        with suppress(OSError):  # a session is weighed as one, and its processes' niceness only among themselves
            Path(f"/proc/{process.pid}/autogroup").write_text(str(ASIDE), "ascii")
    try:
        out, err = _converse(process, stdin)
    finally:
        _sweep(process)
    return Done(process.returncode, out, err)


def release_dead_locks(backend: Path) -> list[str]:
    """A killed Pulumi leaves its lock, and the next one would refuse. Locks of processes that live are left alone."""
    released: list[str] = []
    for lock in (backend / ".pulumi" / "locks").glob("**/*.json"):
        try:
            pid = int(json.loads(lock.read_text())["pid"])
        except (OSError, ValueError, KeyError, TypeError):
            continue
        if not is_pulumi(pid):
            lock.unlink(missing_ok=True)
            released.append(lock.name)
    return released


def _converse(process: subprocess.Popen[str], stdin: str | None) -> tuple[str, str]:
    """Wakes up often: a signal that another thread took is acted on only when this one wakes."""
    while True:
        try:
            return process.communicate(stdin, timeout=POLL_SECONDS)
        except subprocess.TimeoutExpired:
            stdin = None


def _sweep(process: subprocess.Popen[str]) -> None:
    """Ask twice, since Pulumi waits at the first for what it has begun; then end what is left of its session."""
    for number in (signal.SIGINT, signal.SIGINT):
        if process.poll() is not None:
            break
        process.send_signal(number)
        with suppress(subprocess.TimeoutExpired):
            process.wait(STOP_SECONDS)
    end_session(process.pid)
    process.wait()
