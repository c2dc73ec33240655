"""``python -m sparewheel.agent.drill``: a fault on purpose, on this node, marked as a drill. Run in the agent's pod.

Writes a kernel log record as user space does (facility 1, so nobody can take it for the kernel's), and lets the fault
bite as the real one would: ``crash`` kills the rank that uses the GPU, ``hang`` keeps it stopped so that it answers no
signal but SIGKILL, ``silent`` leaves it running.
"""

from __future__ import annotations

import argparse
import os
import signal
import stat
import sys
import time
from pathlib import Path

from sparewheel.faults.kmsg import MalformedRecordError, parse_record
from sparewheel.faults.lines import DRILL_PREFIX

PRIORITY = (1 << 3) | 3
"""Facility user, level error: what the kernel makes of a record that user space writes to /dev/kmsg."""
BITES = {"crash": signal.SIGKILL, "hang": signal.SIGSTOP, "silent": None}
TAIL_BYTES = 65536
HANG_SECONDS = 300.0
STOP_AGAIN_SECONDS = 0.02


def pci_of(gpu: int) -> str:
    """An address for a GPU whose own is not known."""
    return f"0000:{0x10 + gpu:02x}:00"


def text_of(xid: int, pci: str) -> str:
    meaning = "GPU has fallen off the bus." if xid == 79 else "injected."
    return f"{DRILL_PREFIX}NVRM: Xid (PCI:{pci}): {xid}, pid='<unknown>', name=<unknown>, {meaning}"


def write_record(kernel_log: Path, text: str, since_boot_us: int) -> None:
    """Append the record: the device numbers it itself, in a file we number it after the last one."""
    if kernel_log.exists() and stat.S_ISCHR(kernel_log.stat().st_mode):
        kernel_log.write_text(f"<{PRIORITY}>{text}\n", "utf-8")
        return
    line = f"{PRIORITY},{_last_sequence(kernel_log) + 1},{since_boot_us},-;{text}\n"
    with kernel_log.open("a", encoding="utf-8") as file:
        file.write(line)


def _last_sequence(kernel_log: Path) -> int:
    if not kernel_log.exists():
        return 0
    with kernel_log.open("rb") as file:
        file.seek(max(0, kernel_log.stat().st_size - TAIL_BYTES))
        lines = file.read().decode("utf-8", "replace").splitlines()
    for line in reversed(lines):
        try:
            return parse_record(line).sequence
        except MalformedRecordError:
            continue
    return 0


def victims(proc: Path, gpu: int) -> list[int]:
    """Processes of the rank that uses the GPU: by torchrun's LOCAL_RANK, else every task that srun started."""
    by_rank: list[int] = []
    tasks: list[int] = []
    for entry in proc.iterdir():
        if not entry.name.isdigit():
            continue
        try:
            pairs = (entry / "environ").read_bytes().decode("utf-8", "replace").split("\0")
        except OSError:
            continue
        environment = dict(pair.split("=", 1) for pair in pairs if "=" in pair)
        if not environment.get("SLURM_STEP_ID", "").isdigit():
            continue
        tasks.append(int(entry.name))
        ranks = int(environment.get("LOCAL_WORLD_SIZE") or 0)
        if ranks and environment.get("LOCAL_RANK") == str(gpu % ranks):
            by_rank.append(int(entry.name))
    return by_rank or tasks


def strike(pid: int, number: int) -> bool:
    """False when the process is gone."""
    try:
        os.kill(pid, number)
    except ProcessLookupError:
        return False
    return True


def keep_stopped(pids: list[int], seconds: float = HANG_SECONDS) -> None:
    """Stop the processes again and again, from a process of its own; returns at once.

    Slurm sends SIGCONT along with SIGTERM, so one SIGSTOP would not outlast the first attempt to end the job.
    """
    if os.fork():
        return
    os.setsid()
    nothing = os.open(os.devnull, os.O_RDWR)
    for stream in range(3):
        os.dup2(nothing, stream)
    end = time.monotonic() + seconds
    left = pids
    while left and time.monotonic() < end:
        left = [pid for pid in left if strike(pid, signal.SIGSTOP)]
        time.sleep(STOP_AGAIN_SECONDS)
    os._exit(0)


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="sparewheel-drill", description="Injects a fault on this node.")
    parser.add_argument("--xid", type=int, required=True)
    parser.add_argument("--gpu", type=int, default=0)
    parser.add_argument("--pci", help="address of the GPU; made up from --gpu when not given")
    parser.add_argument("--bite", choices=list(BITES), default="crash")
    parser.add_argument("--host-root", type=Path, default=Path("/host"))
    parser.add_argument("--kernel-log", type=Path, default=Path("/dev/kmsg"), help="path on the host")
    options = parser.parse_args(arguments)
    host_root: Path = options.host_root
    pids = victims(host_root / "proc", options.gpu)
    kernel_log = host_root / str(options.kernel_log).lstrip("/")
    write_record(kernel_log, text_of(options.xid, options.pci or pci_of(options.gpu)), time.monotonic_ns() // 1000)
    number = BITES[options.bite]
    bitten = [pid for pid in pids if number is not None and strike(pid, number)]
    processes = "1 process" if len(bitten) == 1 else f"{len(bitten)} processes"
    print(f"XID {options.xid} written as a drill, {processes} bitten ({options.bite})")
    if options.bite == "hang" and bitten:
        sys.stdout.flush()
        keep_stopped(bitten)
    return 0


if __name__ == "__main__":
    sys.exit(main())
