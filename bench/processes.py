"""Processes measured from outside, and waiting for what they do."""

from __future__ import annotations

import os
import re
import time
from collections.abc import Callable
from pathlib import Path

from lab.waiting import wait_for


class BenchError(Exception):
    """A measurement could not be made; the message says which condition was not met."""


def await_(what: str, seconds: float, holds: Callable[[], bool], pause_seconds: float = 0.05) -> float:
    """Seconds until ``holds()`` is true; BenchError when it isn't within ``seconds``."""
    started = time.monotonic()
    wait_for(holds, seconds, lambda: f"not seen: {what}", BenchError, look_seconds=pause_seconds)
    return time.monotonic() - started


def memory_mb(pid: int, field: str = "VmRSS") -> float:
    """``VmRSS`` (now) or ``VmHWM`` (the most so far), in MB of 10^6 bytes."""
    text = Path(f"/proc/{pid}/status").read_text("ascii")
    found = re.search(rf"^{field}:\s+(\d+) kB", text, re.MULTILINE)
    return int(found[1]) * 1024 / 1e6 if found else 0.0


def cpu_seconds(pid: int) -> float:
    """User and system time so far."""
    fields = Path(f"/proc/{pid}/stat").read_text("ascii").rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")
