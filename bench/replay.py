"""``python -m bench.replay``: `sparewheel replay` on one large log, made here; lines a second and the most memory.

One line in a hundred is a driver's and one in a thousand a fault, more than a sick host says; the others are passed
over in blocks. The log is written first and deleted at the end.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

from bench.processes import BenchError, memory_mb
from bench.results import RESULTS, keep, show
from lab.toolchain.progress import note

GIGABYTE = 1_000_000_000
DRIVER_EVERY, FAULT_EVERY = 100, 1000
CODES = (31, 48, 63, 79, 94, 95, 119)
BEGIN = datetime(2026, 11, 30, tzinfo=UTC)
LOOK_SECONDS = 0.05


def line(number: int) -> str:
    """As ``journalctl -k -o short-iso`` prints it."""
    when = (BEGIN + timedelta(milliseconds=number)).strftime("%Y-%m-%dT%H:%M:%S+0000")
    if number % FAULT_EVERY == 0:
        gpu, code = number // FAULT_EVERY % 8, CODES[number // FAULT_EVERY // 8 % len(CODES)]
        text = f"NVRM: Xid (PCI:0000:{0x10 + gpu:02x}:00): {code}, pid={number % 65536}, name=python3, Ch 0000000e"
    elif number % DRIVER_EVERY == 0:
        text = f"mlx5_core 0000:1a:00.0: mlx5_cmd_out_err:812:(pid {number}): ACCESS_REG(0x805) failed"
    else:
        text = f'audit: type=1400 audit({number}.{number % 1000:03d}:{number}): apparmor="ALLOWED" operation="open"'
    return f"{when} gpu-1 kernel: {text}\n"


def blocks(total_bytes: int, lines: int = 10_000) -> Iterator[bytes]:
    """Whole lines, until there are at least ``total_bytes``."""
    made = number = 0
    while made < total_bytes:
        block = "".join(map(line, range(number, number + lines))).encode()
        number += lines
        made += len(block)
        yield block


def write(path: Path, total_bytes: int) -> int:
    """How many lines the log has."""
    count = 0
    with path.open("wb") as file:
        for block in blocks(total_bytes):
            file.write(block)
            count += block.count(b"\n")
    return count


def measure(folder: Path, total_bytes: int) -> dict[str, float]:
    log = folder / "large.log"
    note(f"making a log of {total_bytes / 1e6:.0f} MB")
    lines = write(log, total_bytes)
    began = time.monotonic()
    process = subprocess.Popen([sys.executable, "-m", "sparewheel.cli", "replay", str(log)])
    peak = 0.0
    while process.poll() is None:
        peak = max(peak, memory_mb(process.pid, "VmHWM"))
        time.sleep(LOOK_SECONDS)
    seconds = time.monotonic() - began
    if process.returncode:
        raise BenchError(f"sparewheel replay ended with {process.returncode}; what it printed above says why")
    return {
        "replay_bytes": float(log.stat().st_size),
        "replay_seconds": seconds,
        "replay_lines_per_second": lines / seconds,
        "replay_peak_rss_mb": peak,
    }


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m bench.replay", description=__doc__)
    parser.add_argument("--bytes", type=int, default=GIGABYTE, help="size of the log")
    wanted: int = parser.parse_args().bytes
    RESULTS.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="replay-", dir=RESULTS.parent) as folder:
        figures = measure(Path(folder), wanted)
    keep(figures)
    show(figures)
    return 0


if __name__ == "__main__":
    sys.exit(main())
