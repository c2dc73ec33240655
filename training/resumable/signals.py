"""SIGTERM that is never lost: seen at once, also while the training loop hangs in a collective.

A Python signal handler runs only between two instructions of the main thread, so a rank that waits inside NCCL or gloo
for a dead peer never sees the signal. Here the C level handler writes to a pipe, and a thread reads it:

- the loop goes on: it sees `stop_requested`, agrees with its peers on a step, calls `take_over()` and saves;
- the loop doesn't get there within the time for two or three steps: the thread saves the last completed step itself.

`committing()` keeps the two apart: the state changes only inside it, and the thread waits for its end.
"""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from types import FrameType

from .clock import Clock, MonotonicClock

STOPPED = 75
"""Exit code of a rank that stopped for a reason outside itself (EX_TEMPFAIL: try again)."""

AGREE_SECONDS_MIN = 3.0
AGREE_SECONDS_MAX = 15.0
STEPS_TO_AGREE = 2.5
EXIT_RESERVE_SECONDS = 5.0


class StopGuard:
    """Watches for SIGTERM on behalf of one rank.

    `grace_seconds`: from SIGTERM to SIGKILL (the platform's KillWait). `end`: how the thread ends the process.
    """

    def __init__(self, grace_seconds: float, clock: Clock | None = None, end: Callable[[int], None] = os._exit) -> None:
        self._grace_seconds = grace_seconds
        self._clock: Clock = clock or MonotonicClock()
        self._end = end
        self._stopped_at: float | None = None
        self._save_alone: Callable[[], None] | None = None
        self._last_commit: float | None = None
        self._step_seconds = 0.0
        self._commit = threading.Lock()
        self._final = threading.Lock()
        self._taken_over = threading.Event()
        self._saving = False

    def install(self) -> None:
        """Start watching. First thing in the program: until `training()` is called, SIGTERM ends it at once."""
        reader, writer = os.pipe()
        os.set_blocking(writer, False)
        signal.signal(signal.SIGTERM, _leave_to_thread)
        signal.set_wakeup_fd(writer, warn_on_full_buffer=False)
        threading.Thread(target=self._watch, args=(reader,), name="stop-guard", daemon=True).start()

    def training(self, save_alone: Callable[[], None]) -> None:
        """The loop starts. `save_alone` saves the last completed step without help from any other rank."""
        self._save_alone = save_alone

    @property
    def stop_requested(self) -> bool:
        return self._stopped_at is not None

    @property
    def give_up_at(self) -> float:
        """The reading of the clock by which everything must be written."""
        start = self._clock.now() if self._stopped_at is None else self._stopped_at
        return start + self._grace_seconds - EXIT_RESERVE_SECONDS

    @contextmanager
    def committing(self) -> Iterator[None]:
        """Around everything that changes the state: the optimizer's step and the step counter. No collective inside."""
        with self._commit:
            yield
            now = self._clock.now()
            if self._last_commit is not None:
                self._step_seconds = now - self._last_commit
            self._last_commit = now

    @contextmanager
    def saving(self) -> Iterator[None]:
        """Around a periodic save: it isn't mistaken for a loop that hangs."""
        self._saving = True
        try:
            yield
        finally:
            self._last_commit = None  # the save's time is no step's time
            self._saving = False

    def take_over(self) -> None:
        """The main thread does the last save. Doesn't return if the watching thread is at it already."""
        self._taken_over.set()
        self._final.acquire()

    def wait(self, seconds: float) -> None:
        """Let time pass, at most until SIGTERM."""
        end = self._clock.now() + seconds
        while not self.stop_requested and (left := end - self._clock.now()) > 0:
            self._clock.wait(min(left, 0.05))

    def _watch(self, reader: int) -> None:
        while signal.SIGTERM not in os.read(reader, 64):
            pass
        self._stopped_at = self._clock.now()
        if self._save_alone is None:
            self._end(STOPPED)
            return
        quiet_since = self._clock.now()
        while not self._taken_over.wait(0.05):
            if self._saving:
                quiet_since = self._clock.now()
            elif self._clock.now() - quiet_since >= self._agree_seconds() and self._final.acquire(blocking=False):
                self._commit.acquire()
                try:
                    self._save_alone()
                except BaseException as error:  # noqa: BLE001 (whatever it is, the process ends as one that was stopped)
                    _say(f"the last save failed: {type(error).__name__}: {error}")
                finally:
                    self._end(STOPPED)
                return

    def _agree_seconds(self) -> float:
        return min(max(AGREE_SECONDS_MIN, STEPS_TO_AGREE * self._step_seconds), AGREE_SECONDS_MAX)


def _say(text: str) -> None:
    """Straight to standard error: the process ends right away, and the main thread may hold the stream's lock."""
    with suppress(OSError):
        os.write(2, f"{text}\n".encode("utf-8", "replace"))


def _leave_to_thread(_signal: int, _frame: FrameType | None) -> None:
    """The wake-up pipe has it already; a handler must be there for the pipe to be written."""
