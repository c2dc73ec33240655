"""When a job's launchers began, from the process table that all hosts share: Slurm's own times are whole seconds."""

from __future__ import annotations

import os
import time
from datetime import UTC, datetime
from pathlib import Path

LAUNCHER = "launch.py"
_STARTED = 19
"""Of the fields in /proc/PID/stat that follow the name."""


def launched_at(proc: Path, job: int, attempt: int) -> datetime | None:
    """When the last of the launchers that run for this attempt began; None where there is none."""
    launchers = (entry for entry in proc.iterdir() if entry.name.isdigit() and _is_launcher(entry, job, attempt))
    found = [ticks for entry in launchers if (ticks := _start_ticks(entry)) is not None]
    if not found:
        return None
    since = time.clock_gettime(time.CLOCK_BOOTTIME) - max(found) / os.sysconf("SC_CLK_TCK")
    return datetime.fromtimestamp(time.time() - since, UTC)


def _is_launcher(entry: Path, job: int, attempt: int) -> bool:
    try:
        words = (entry / "cmdline").read_bytes().decode("utf-8", "replace").split("\0")
        if LAUNCHER not in words[1:2]:
            return False
        pairs = (entry / "environ").read_bytes().decode("utf-8", "replace").split("\0")
    except OSError:  # it ended meanwhile
        return False
    names = dict(pair.split("=", 1) for pair in pairs if "=" in pair)
    return names.get("SLURM_JOB_ID") == str(job) and names.get("SLURM_RESTART_COUNT", "0") == str(attempt)


def _start_ticks(entry: Path) -> int | None:
    try:
        text = (entry / "stat").read_text("utf-8", "replace")
    except OSError:
        return None
    return int(text.rpartition(")")[2].split()[_STARTED])
