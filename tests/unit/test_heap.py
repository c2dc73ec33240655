"""Freed memory goes back to the system."""

from __future__ import annotations

import asyncio
import subprocess
import sys

import pytest

from sparewheel.api.names import CONTROLLER_ENVIRONMENT
from sparewheel.heap import EVERY_SECONDS, give_back_for_ever
from tests.support.clocks import LoopClock

PROGRAM = """
import re, sys
from pathlib import Path
from sparewheel.heap import glibc_trim

def resident():
    return int(re.search(r"VmRSS:\\s+(\\d+)", Path("/proc/self/status").read_text())[1])

rows = [{"number": str(number)} for number in range(200_000)]
kept = rows[::500]
before = resident()
del rows
freed = resident()
glibc_trim()()
print(before - resident(), before - freed)
"""


def test_what_lies_between_things_that_stay_goes_back_too() -> None:
    """One object in five hundred stays: no arena of Python's own is ever free."""
    command = [sys.executable, "-c", PROGRAM]
    done = subprocess.run(command, env=CONTROLLER_ENVIRONMENT, capture_output=True, text=True, check=True)
    given_back_kb = int(done.stdout.split()[0])
    assert given_back_kb > 30_000


@pytest.mark.looptime
async def test_it_is_given_back_again_and_again() -> None:
    times: list[float] = []
    clock = LoopClock()
    task = asyncio.create_task(give_back_for_ever(clock, lambda: times.append(clock.monotonic_seconds())))
    await asyncio.sleep(3.5 * EVERY_SECONDS)
    task.cancel()
    assert times == [EVERY_SECONDS, 2 * EVERY_SECONDS, 3 * EVERY_SECONDS]
