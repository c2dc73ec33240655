"""What `train.py` is told on its command line."""

from __future__ import annotations

import argparse


def parse(description: str) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=description, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--steps", type=int, default=1000)
    parser.add_argument("--checkpoint-every", type=int, default=50, help="steps between periodic checkpoints")
    parser.add_argument("--keep", type=int, default=3, help="periodic checkpoints to keep")
    parser.add_argument("--run-dir", help="on shared storage (default ~/runs/JOBID)")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--batch-size", type=int, default=32, help="samples per step over all ranks")
    parser.add_argument("--hidden", type=int, default=64)
    parser.add_argument("--threads", type=int, default=1, help="of each rank, on the CPU")
    parser.add_argument(
        "--grace-seconds", type=float, default=120, help="from SIGTERM to SIGKILL: the platform's KillWait"
    )
    parser.add_argument(
        "--collective-timeout-seconds", type=float, default=180, help="after which a silent peer counts as lost"
    )
    parser.add_argument("--print-every", type=int, default=10, help="steps between lines in the job's log")
    parser.add_argument("--step-seconds", type=float, default=0, help="at least this long per step (to watch a demo)")
    parser.add_argument("--save-seconds", type=float, default=0, help="pretend storage that needs this long per save")
    return parser.parse_args()
