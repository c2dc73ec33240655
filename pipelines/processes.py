"""What Pulumi started: its plugins outlive an engine that was killed, but stay in its session."""

from __future__ import annotations

import os
import signal
from contextlib import suppress
from pathlib import Path


def is_pulumi(pid: int) -> bool:
    """Whether a process of this machine is Pulumi."""
    try:
        return b"pulumi" in Path(f"/proc/{pid}/cmdline").read_bytes()
    except OSError:
        return False


def end_session(leader: int) -> None:
    """Ends what is left of the session that ``leader`` began."""
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            with suppress(OSError, ValueError):
                if os.getsid(int(entry.name)) == leader:
                    os.kill(int(entry.name), signal.SIGKILL)
