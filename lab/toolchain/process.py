"""Run a program of the set-up, keep what it says, and turn the usual failures into sentences."""

from __future__ import annotations

import os
import signal
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path

from lab.toolchain.errors import ToolchainError

POLL_SECONDS = 0.5
_FULL = "no space left on device"
_NO_NETWORK = (
    "no such host",
    "temporary failure in name resolution",
    "temporary failure resolving",
    "dns error",
    "failed to resolve",
    "network is unreachable",
    "connection refused",
    "i/o timeout",
    "max retries exceeded",
    "could not connect",
    "tls handshake timeout",
)


def run(command: Sequence[str], doing: str, folder: Path | None = None, env: Mapping[str, str] | None = None) -> str:
    """Run `command` to its end and return its standard output.

    doing: what it is for, as in "building etcd"; it starts the error's sentence.
    Ctrl-C ends the program and its children before it goes on up.
    """
    try:
        process = subprocess.Popen(
            command,
            cwd=folder,
            env=None if env is None else dict(env),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            start_new_session=True,
        )
    except FileNotFoundError:
        raise ToolchainError(f"{_sentence(doing)} needs `{command[0]}`, which isn't on the PATH: install it.") from None
    try:
        out, err = _converse(process)
    except BaseException:
        _end(process)
        raise
    if process.returncode != 0:
        error = failure(doing, f"{out}\n{err}", process.returncode)
        error.add_note(f"{out}\n{err}")  # for a caller that keeps a log
        raise error
    return out


def _converse(process: subprocess.Popen[str]) -> tuple[str, str]:
    """Wait for the end, waking up often: a signal that another thread took is only acted on when this one wakes."""
    while True:
        try:
            return process.communicate(timeout=POLL_SECONDS)
        except subprocess.TimeoutExpired:
            continue


def failure(doing: str, said: str, code: int) -> ToolchainError:
    """What went wrong, from what the program said."""
    low = said.lower()
    if _FULL in low:
        return ToolchainError(
            f"{_sentence(doing)} stopped because the disk is full; nothing half done was kept. "
            "Free some space (all of it takes about 12 GB), then run the same command again."
        )
    if any(sign in low for sign in _NO_NETWORK):
        return ToolchainError(
            f"{_sentence(doing)} needs the network and couldn't reach it ({_last_line(said)}). "
            "Check the connection or the proxy settings, then run the same command again: it goes on where it stopped."
        )
    return ToolchainError(f"{_sentence(doing)} failed with exit code {code}: {_last_line(said)}")


def _end(process: subprocess.Popen[str]) -> None:
    """TERM to the program's whole session, KILL to what is left after five seconds."""
    for sign in (signal.SIGTERM, signal.SIGKILL):
        try:
            os.killpg(process.pid, sign)
            process.wait(timeout=5)
        except ProcessLookupError:
            return
        except subprocess.TimeoutExpired:
            continue
        return


def _sentence(text: str) -> str:
    return text[:1].upper() + text[1:]


def _last_line(said: str) -> str:
    lines = [line.strip() for line in said.splitlines() if line.strip()]
    return lines[-1] if lines else "it said nothing"
