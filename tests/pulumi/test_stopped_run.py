"""A run that is stopped by Ctrl-C or killed: nothing is left running, and the next run goes on."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path

import pytest

from lab.pulumi_run import release_dead_locks, run
from tests.pulumi.stack import ROOT, ProjectStack

pytestmark = pytest.mark.slow
SLOW = """
import pulumi
from pulumi_command import local

local.Command("slow", create="sleep 300.25")
"""
RUNNER = """
import sys
from pathlib import Path
from lab.pulumi_run import run

run(["up", "--yes", "--skip-preview", "--non-interactive"], Path(sys.argv[1]), __import__("os").environ)
"""


def sleepers() -> list[int]:
    found: list[int] = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                words = (entry / "cmdline").read_bytes().split(b"\0")
            except OSError:
                continue
            if words[:2] == [b"sleep", b"300.25"]:
                found.append(int(entry.name))
    return found


def start(stack: ProjectStack) -> subprocess.Popen[bytes]:
    env = {**stack.env, "PYTHONPATH": str(ROOT)}
    process = subprocess.Popen([sys.executable, "-c", RUNNER, str(stack.folder)], env=env, stderr=subprocess.DEVNULL)
    deadline = time.monotonic() + 60
    while not sleepers() and time.monotonic() < deadline:
        assert process.poll() is None
        time.sleep(0.1)
    assert sleepers()
    return process


def session_of(stack: ProjectStack) -> dict[int, str]:
    """Processes that have the stack's backend in their environment, with their command lines."""
    found: dict[int, str] = {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit() and int(entry.name) != os.getpid():
            try:
                if str(stack.backend).encode() in (entry / "environ").read_bytes():
                    command = (entry / "cmdline").read_bytes()
                    found[int(entry.name)] = command.replace(b"\0", b" ").decode()
            except OSError:
                continue
    return found


def test_ctrl_c_leaves_nothing_running_and_no_lock(tmp_path: Path) -> None:
    stack = ProjectStack(tmp_path, SLOW)
    process = start(stack)
    process.send_signal(signal.SIGINT)
    process.wait(timeout=30)
    assert session_of(stack) == {}
    release_dead_locks(stack.backend)
    (stack.folder / "__main__.py").write_text("")
    stack.up()


def test_the_lock_of_a_killed_run_is_released_and_that_of_a_living_one_is_not(tmp_path: Path) -> None:
    stack = ProjectStack(tmp_path, SLOW)
    process = start(stack)
    assert release_dead_locks(stack.backend) == []
    assert stack.run("up", "--yes", "--skip-preview").code != 0, "a stack that is being changed is locked"
    found = session_of(stack)
    for sent in (signal.SIGSTOP, signal.SIGKILL):  # stopped first: Pulumi lets go of its lock when it sees a plugin die
        for pid in found:
            with suppress(ProcessLookupError):
                os.kill(pid, sent)
    process.wait(timeout=30)
    assert len(release_dead_locks(stack.backend)) == 1
    (stack.folder / "__main__.py").write_text("")
    done = run(["up", "--yes", "--skip-preview", "--non-interactive"], stack.folder, stack.env)
    assert done.code == 0, done.out + done.err
