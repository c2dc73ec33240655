"""``python -m bench.first_step``: the demo's story several times; a GPU's death to the job's first new step.

Less what the job itself needs to start, measured at its first start; `python -m lab.demo` shows one story whole.
"""

from __future__ import annotations

import argparse
import statistics
import sys

from bench.results import keep, show
from lab.demo.__main__ import ERRORS, tell
from lab.demo.summary import Runs
from lab.paths import paths_from_environment

RUNS = 5


def figures_of(told: Runs, bite: str, *, cold: bool) -> dict[str, float]:
    """By name; empty where no job took a new step."""
    if not told.seconds:
        return {}
    name = "_".join([*(["cold"] if cold else []), *([bite] if bite != "crash" else []), "first_step"])
    return {
        f"{name}_median_seconds": statistics.median(told.seconds),
        f"{name}_worst_seconds": max(told.seconds),
        f"{name}_runs": float(len(told.seconds)),
        f"{name}_platform_median_seconds": statistics.median(told.platform),
        f"{name}_platform_worst_seconds": max(told.platform),
    }


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m bench.first_step", description=__doc__)
    parser.add_argument("--runs", type=int, default=RUNS)
    parser.add_argument("--bite", choices=["crash", "hang", "silent"], default="crash")
    parser.add_argument("--cold", action="store_true", help="the spare is outside the cluster and has to join")
    options = parser.parse_args()
    try:
        told = tell(paths_from_environment(), options.runs, options.bite, warm=not options.cold)
    except ERRORS as error:
        sys.exit(f"error: {error}")
    figures = figures_of(told, options.bite, cold=options.cold)
    keep(figures)
    show(figures)
    if told.failed:
        sys.exit("\n".join(["the story did not keep its promise:", *told.failed]))
    return 0 if told.seconds else 1


if __name__ == "__main__":
    sys.exit(main())
