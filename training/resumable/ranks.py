"""The ranks of one node, as their launcher sees them: told of SIGTERM whatever torchrun is doing, and waited for.

torchrun passes SIGTERM on from its main thread. That thread may hang in a read from a node that has vanished, for a
minute and more, and where Slurm tracks processes by cgroup, SIGTERM goes to the launcher alone: the ranks would lose
half their grace. So a thread of its own tells them, waits for their saves and ends the launcher.
"""

from __future__ import annotations

import os
import signal
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from types import FrameType

TERMINATED = 128 + signal.SIGTERM
POLL_SECONDS = 0.05


class RankKeeper:
    """`grace_seconds`: from SIGTERM to SIGKILL. `end`: how the thread ends the launcher."""

    def __init__(self, grace_seconds: float, end: Callable[[int], None] = os._exit) -> None:
        self._grace_seconds = grace_seconds
        self._end = end
        self._told = threading.Event()
        self._thread: threading.Thread | None = None

    def install(self) -> None:
        """From here on SIGTERM is noticed; whoever sets another handler for it changes nothing."""
        reader, writer = os.pipe()
        os.set_blocking(writer, False)
        signal.signal(signal.SIGTERM, _leave_to_thread)
        signal.set_wakeup_fd(writer, warn_on_full_buffer=False)
        self._thread = threading.Thread(target=self._watch, args=(reader,), name="rank-keeper", daemon=True)
        self._thread.start()

    @property
    def told(self) -> bool:
        """Whether SIGTERM has come."""
        return self._told.is_set()

    def wait_for_ranks(self) -> None:
        """Until the last rank has ended; what outlives the grace is killed."""
        give_up_at = time.monotonic() + self._grace_seconds
        while (left := living_children()) and time.monotonic() < give_up_at:
            time.sleep(POLL_SECONDS)
        for pid in left:
            _send(pid, signal.SIGKILL)

    def wait_for_sigterm(self, seconds: float) -> None:
        """Returns after `seconds`; if SIGTERM comes, or has come, the thread ends this process instead."""
        signal.signal(signal.SIGTERM, _leave_to_thread)
        if self._told.wait(seconds) and self._thread is not None:
            self._thread.join()

    def _watch(self, reader: int) -> None:
        while signal.SIGTERM not in os.read(reader, 64):
            pass
        self._told.set()
        for pid in living_children():
            _send(pid, signal.SIGTERM)
        self.wait_for_ranks()
        sys.stdout.flush()
        self._end(TERMINATED)


def living_children() -> list[int]:
    """Processes that this one started, of any of its threads, and that still run."""
    found: list[int] = []
    for task in Path("/proc/self/task").iterdir():
        try:
            found += [int(pid) for pid in (task / "children").read_text().split()]
        except FileNotFoundError:  # the thread has ended meanwhile
            continue
    return [pid for pid in found if _runs(pid)]


def _runs(pid: int) -> bool:
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except (FileNotFoundError, ProcessLookupError):
        return False
    return state not in {"Z", "X"}


def _send(pid: int, number: signal.Signals) -> None:
    try:
        os.kill(pid, number)
    except ProcessLookupError:
        return


def _leave_to_thread(_signal: int, _frame: FrameType | None) -> None:
    """The wake-up pipe has it already; a handler must be there for the pipe to be written."""
