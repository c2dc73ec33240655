"""Which Slurm jobs still have processes on the node: every live process with SLURM_JOB_ID in its environment."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

_KEY = b"SLURM_JOB_ID="


def job_processes(proc: Path) -> dict[int, int]:
    """``{job id: processes}`` from a host's ``/proc``. Raises OSError when the folder itself cannot be read.

    A process that ends while being read is simply not there; a zombie has an empty environment and does not count.
    """
    found: Counter[int] = Counter()
    for entry in proc.iterdir():
        if not entry.name.isdigit():
            continue
        try:
            environment = (entry / "environ").read_bytes()
        except (FileNotFoundError, ProcessLookupError):
            continue
        for variable in environment.split(b"\0"):
            if variable.startswith(_KEY) and variable[len(_KEY) :].isdigit():
                found[int(variable[len(_KEY) :])] += 1
                break
    return dict(found)
