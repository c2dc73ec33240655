"""``python -m bench [NAME...]``: each measurement in a process of its own; then all the figures."""

from __future__ import annotations

import argparse
import json
import subprocess
import sys

from bench.results import RESULTS, show
from lab.toolchain.progress import note

MEASUREMENTS = {
    "agent": "the agent: lines a second, memory, idle load",
    "replay": "`sparewheel replay` on a log of 1 GB",
    "events": "the controller's own work: events a second, without an API server",
    "preview": "the first preview of a stack with 2,000 nodes",
    "scale": "the controller over 10,000 nodes on a real API server",
}
"""Module under ``bench`` to what it measures."""
ON_THE_DATA_CENTRE = {
    "first_step": "a GPU's death to the job's first new step, five stories",
    "plain_slurm": "a lost host: plain Slurm beside ours",
}
"""Likewise; only when named (`make bench-lab`), for they need root, and twenty minutes or more."""


def main() -> int:
    known = MEASUREMENTS | ON_THE_DATA_CENTRE
    parser = argparse.ArgumentParser(prog="python -m bench", description=__doc__)
    parser.add_argument("names", nargs="*", choices=[[], *known], metavar="NAME", help=", ".join(known))
    wanted = parser.parse_args().names or list(MEASUREMENTS)
    failed: list[str] = []
    for name in wanted:
        note(f"measuring {known[name]}")
        if subprocess.run([sys.executable, "-m", f"bench.{name}"], check=False).returncode:
            failed.append(name)
    figures: dict[str, float] = json.loads(RESULTS.read_text("utf-8")) if RESULTS.exists() else {}
    print(f"\nAll figures ({RESULTS}):")
    show(dict(sorted(figures.items())))
    if failed:
        print(f"Not measured: {', '.join(failed)}; what each printed above says why.")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
