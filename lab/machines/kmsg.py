"""A host's kernel log: records in the form of /dev/kmsg (`prio,seq,usec,flag;text`)."""

import os
import time
from pathlib import Path

from lab.machines.gpus import pci_address

WARNING = 4
INFO = 6


def record(priority: int, sequence: int, text: str, monotonic_seconds: float) -> str:
    """One record; the priority's facility is 0, the kernel's own."""
    return f"{priority},{sequence},{int(monotonic_seconds * 1e6)},-;{text}\n"


def start_log(path: Path, gpus: int) -> None:
    """A new log as after a boot, with what the driver says at load; written in place, so that readers stay on it."""
    now = time.clock_gettime(time.CLOCK_MONOTONIC)
    lines = ["Linux version of this machine", "NVRM: loading NVIDIA UNIX Open Kernel Module for x86_64  580.159.04"]
    lines += [f"nvidia {pci_address(gpu)}.0: enabling device (0000 -> 0003)" for gpu in range(gpus)]
    shown = lines if gpus else lines[:1]
    path.write_text("".join(record(INFO, n, text, now) for n, text in enumerate(shown)))


def append_record(path: Path, priority: int, text: str) -> str:
    """Append one kernel record in a single write; returns it."""
    with path.open("rb") as file:
        sequence = sum(1 for line in file if line[:1].isdigit())
    line = record(priority, sequence, text, time.clock_gettime(time.CLOCK_MONOTONIC))
    descriptor = os.open(path, os.O_WRONLY | os.O_APPEND)
    try:
        os.write(descriptor, line.encode())
    finally:
        os.close(descriptor)
    return line


def xid_text(xid: int, gpu: int, pid: int | None = None, process: str | None = None) -> str:
    """The driver's line for an XID on that GPU; the process is unknown to the driver unless given."""
    who = "pid='<unknown>', name=<unknown>" if pid is None else f"pid={pid}, name={process}"
    what = {31: "Ch 00000008, MMU Fault: ENGINE GRAPHICS faulted", 79: "GPU has fallen off the bus."}.get(
        xid, "Ch 00000008"
    )
    return f"NVRM: Xid (PCI:{pci_address(gpu)}): {xid}, {who}, {what}"
