"""A launcher's SIGTERM reaches its ranks at once and its end waits for theirs, in real processes."""

from __future__ import annotations

import signal
import subprocess
import sys
import time

PRELUDE = """
import ctypes, subprocess, sys, time
from training.resumable.ranks import RankKeeper, living_children
GRACE = 60
def start(body):
    whole = "import signal, sys, time\\n" + body
    child = subprocess.Popen([sys.executable, "-c", whole], stdout=subprocess.PIPE, text=True)
    child.stdout.readline()
    return child
SAVE = '''
def save(*_):
    time.sleep(0.5); sys.stderr.write("saved\\\\n"); sys.stderr.flush(); sys.exit(75)
signal.signal(signal.SIGTERM, save); print("ready", flush=True); time.sleep(60)
'''
DEAF = "signal.signal(signal.SIGTERM, signal.SIG_IGN); print('ready', flush=True); time.sleep(60)"
def hang():  # like a read from a node that has vanished: no Python instruction is run any more
    mutex = ctypes.create_string_buffer(64)
    libc = ctypes.CDLL(None)
    libc.pthread_mutex_lock(mutex)
    libc.pthread_mutex_lock(mutex)
def say(word):
    print(word, flush=True)
"""
TERMINATED = 143
END_SECONDS = 30
"""However slow the machine is: what ends within it did not wait for the grace, nor for SIGTERM."""


def start(body: str) -> subprocess.Popen[bytes]:
    """Start `body` and wait for its line 'ready'; no later line waits unseen in a buffer of ours."""
    process = subprocess.Popen(
        [sys.executable, "-c", PRELUDE + body], stdout=subprocess.PIPE, stderr=subprocess.PIPE, bufsize=0
    )
    assert process.stdout is not None
    assert process.stdout.readline() == b"ready\n"
    return process


def said(process: subprocess.Popen[bytes]) -> tuple[str, str]:
    out, err = process.communicate(timeout=END_SECONDS)
    return out.decode(), err.decode()


def terminate(process: subprocess.Popen[bytes]) -> tuple[int, str, str]:
    process.send_signal(signal.SIGTERM)
    out, err = said(process)
    return process.returncode, out, err


def test_ranks_save_though_the_launcher_hangs() -> None:
    process = start("keeper = RankKeeper(GRACE); keeper.install(); start(SAVE); start(SAVE); say('ready'); hang()")
    assert terminate(process) == (TERMINATED, "", "saved\nsaved\n")


def test_what_outlives_the_grace_is_killed() -> None:
    process = start("keeper = RankKeeper(1); keeper.install(); start(DEAF); say('ready'); hang()")
    began = time.monotonic()
    assert terminate(process) == (TERMINATED, "", "")
    assert time.monotonic() - began >= 1


def test_without_ranks_it_ends_at_once() -> None:
    process = start("keeper = RankKeeper(GRACE); keeper.install(); say('ready'); hang()")
    assert terminate(process)[0] == TERMINATED


def test_another_handler_for_the_signal_takes_nothing_away() -> None:
    body = """
import signal
keeper = RankKeeper(GRACE); keeper.install(); start(SAVE)
class Signalled(Exception): pass
def torchrun(*_): raise Signalled
signal.signal(signal.SIGTERM, torchrun)
try:
    say('ready'); time.sleep(60)
except Signalled:
    say('signalled')
keeper.wait_for_ranks()
say('told' if keeper.told else 'not told')
keeper.wait_for_sigterm(60)
say('never')
"""
    code, out, err = terminate(start(body))
    assert (code, err) == (TERMINATED, "saved\n")
    assert "never" not in out


def test_waiting_for_sigterm_ends_with_it_or_with_the_time() -> None:
    body = "keeper = RankKeeper(GRACE); keeper.install(); say('ready'); keeper.wait_for_sigterm(SECONDS); say('over')"
    assert terminate(start(body.replace("SECONDS", "60")))[:2] == (TERMINATED, "")
    process = start(body.replace("SECONDS", "0.5"))
    out, _ = said(process)
    assert (process.returncode, out) == (0, "over\n")


def test_a_rank_that_has_ended_is_no_child_any_more() -> None:
    body = """
child = start("print('ready', flush=True)")
say('ready')
while living_children():
    time.sleep(0.05)
say('gone')
"""
    assert said(start(body)) == ("gone\n", "")
