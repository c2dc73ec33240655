"""SIGTERM in real processes, whose main thread runs, hangs outside Python, saves, or hasn't begun."""

from __future__ import annotations

import signal
import subprocess
import sys
import time

import pytest

from training.resumable import signals
from training.resumable.signals import STOPPED

PRELUDE = """
import ctypes, sys, threading, time
from training.resumable import signals
class HandClock:
    seconds, reads = 0.0, 0
    def now(self):
        self.reads += 1
        return self.seconds
    def move(self, seconds):  # and the watching thread, which alone reads it meanwhile, has looked before and after
        for step in (0, seconds):
            self.seconds += step
            seen = self.reads
            while self.reads < seen + 2:
                time.sleep(0.01)
def hang():  # like a collective that waits for a dead peer: no Python instruction is run any more
    mutex = ctypes.create_string_buffer(64)
    libc = ctypes.CDLL(None)
    libc.pthread_mutex_lock(mutex)
    libc.pthread_mutex_lock(mutex)
def say(word):
    print(word, flush=True)
"""
REAL_TIME = """
signals.AGREE_SECONDS_MIN = 0.3
guard = signals.StopGuard(GRACE)
guard.install()
"""
BY_HAND = """
clock = HandClock()
guard = signals.StopGuard(GRACE, clock)
guard.install()
"""
GRACE_SECONDS = 60
END_SECONDS = 30
"""However slow the machine is: what ends within it did not wait for the grace."""


def run(body: str, setting: str = REAL_TIME) -> tuple[subprocess.Popen[str], float]:
    """Start `body`, wait for its line 'ready', send SIGTERM. The process, and when."""
    command = [sys.executable, "-c", PRELUDE + setting.replace("GRACE", str(GRACE_SECONDS)) + body]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    assert process.stdout is not None
    assert process.stdout.readline() == "ready\n"
    sent = time.monotonic()
    process.send_signal(signal.SIGTERM)
    return process, sent


def finish(process: subprocess.Popen[str]) -> tuple[int, list[str]]:
    out, _ = process.communicate(timeout=END_SECONDS)
    return process.returncode, out.split()


def test_before_training_it_ends_at_once() -> None:
    process, _ = run("say('ready'); hang()")
    assert finish(process) == (STOPPED, [])


def test_a_loop_that_runs_does_its_own_save() -> None:
    process, _ = run(
        """
guard.training(lambda: say('alone'))
say('ready')
while not guard.stop_requested:
    with guard.committing():
        time.sleep(0.01)
guard.take_over()
clock.seconds += 100
time.sleep(0.3)
say('together')
sys.exit(5)
""",
        BY_HAND,
    )
    assert finish(process) == (5, ["together"])


def test_a_loop_that_hangs_is_saved_by_the_thread() -> None:
    process, sent = run("guard.training(lambda: say('alone')); say('ready'); hang()")
    assert finish(process) == (STOPPED, ["alone"])
    assert time.monotonic() - sent >= 0.3


def test_the_thread_never_saves_a_half_changed_state() -> None:
    process, _ = run(
        """
state = []
guard.training(lambda: say('+'.join(state)))
with guard.committing():
    say('ready')
    time.sleep(1)
    state += ['first', 'second']
hang()
"""
    )
    assert finish(process) == (STOPPED, ["first+second"])


def test_a_periodic_save_is_not_taken_for_a_hang() -> None:
    process, _ = run(
        """
guard.training(lambda: say('alone'))
with guard.saving():
    say('ready')
    while not guard.stop_requested:
        time.sleep(0.01)
    clock.move(100)
say('saved')
guard.take_over()
""",
        BY_HAND,
    )
    assert finish(process) == (0, ["saved"])


def test_a_loop_that_comes_late_waits_for_the_thread() -> None:
    process, _ = run(
        """
begun = threading.Event()
def slow():
    begun.set()
    time.sleep(0.8)
    say('alone')
guard.training(slow)
say('ready')
begun.wait()
guard.take_over()
say('together')
"""
    )
    assert finish(process) == (STOPPED, ["alone"])


@pytest.mark.parametrize(
    ("error", "said"),
    [
        ("ZeroDivisionError('no step')", "ZeroDivisionError: no step"),
        ("SystemExit(9)", "SystemExit: 9"),
        ("OSError(28, 'No space left on device')", "OSError: [Errno 28] No space left on device"),
    ],
)
def test_an_error_in_the_save_is_said_and_ends_the_process_all_the_same(error: str, said: str) -> None:
    process, _ = run(f"def fail(): raise {error}\nguard.training(fail); say('ready'); hang()")
    _, errors = process.communicate(timeout=END_SECONDS)
    assert process.returncode == STOPPED
    assert errors == f"the last save failed: {said}\n"


def test_a_second_signal_changes_nothing() -> None:
    process, _ = run("guard.training(lambda: (say('begun'), time.sleep(1), say('alone'))); say('ready'); hang()")
    assert process.stdout is not None
    assert process.stdout.readline() == "begun\n"
    process.send_signal(signal.SIGTERM)
    assert finish(process) == (STOPPED, ["alone"])


def test_waiting_ends_with_the_signal() -> None:
    process, _ = run("guard.training(lambda: None); say('ready'); guard.wait(60); guard.take_over()")
    assert finish(process)[0] == 0


@pytest.mark.parametrize(("step_seconds", "expected"), [(0.01, 3.0), (4.0, 10.0), (100.0, 15.0)])
def test_time_to_agree_follows_the_length_of_a_step(step_seconds: float, expected: float) -> None:
    class Clock:
        seconds = 0.0

        def now(self) -> float:
            return self.seconds

        def wait(self, seconds: float) -> None:
            self.seconds += seconds

    clock = Clock()
    guard = signals.StopGuard(120, clock)
    for _ in range(3):
        clock.wait(step_seconds)
        with guard.committing():
            pass
    assert guard._agree_seconds() == pytest.approx(expected)
