"""Processes by identity: pid plus start time, so that a signal never reaches a stranger with a reused pid."""

import os
import signal
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class Identity:
    """One process: `start_ticks` is field 22 of /proc/PID/stat (clock ticks since boot)."""

    pid: int
    start_ticks: int


def identify(pid: int) -> Identity | None:
    """The identity of a live process, None when there is none or it is a zombie."""
    try:
        text = Path(f"/proc/{pid}/stat").read_text()
    except (FileNotFoundError, ProcessLookupError):
        return None
    fields = text[text.rindex(")") + 2 :].split()
    if fields[0] in "ZX":
        return None
    return Identity(pid, int(fields[19]))


def is_alive(identity: Identity) -> bool:
    """Whether exactly this process still runs."""
    return identify(identity.pid) == identity


def send_signal(identity: Identity, number: signal.Signals) -> bool:
    """Signal exactly this process; False when it is gone."""
    try:
        descriptor = os.pidfd_open(identity.pid)
    except ProcessLookupError:
        return False
    try:
        if not is_alive(identity):
            return False
        signal.pidfd_send_signal(descriptor, number)
    except ProcessLookupError:
        return False
    finally:
        os.close(descriptor)
    return True


def machine_boot_id() -> str:
    """The kernel's boot id: pids recorded under another one are void."""
    return Path("/proc/sys/kernel/random/boot_id").read_text().strip()
