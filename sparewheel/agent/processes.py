"""Which Slurm jobs still have processes on the node: every live process with SLURM_JOB_ID in its environment."""

from __future__ import annotations

from collections import Counter
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from pathlib import Path

_KEY = b"SLURM_JOB_ID="


@dataclass(frozen=True, slots=True)
class Processes:
    """``jobs``: ``{job id: processes}``; ``pids``: every process that there is."""

    jobs: dict[int, int]
    pids: frozenset[str]


def job_processes(proc: Path, known: AbstractSet[str] = frozenset()) -> Processes:
    """From a host's ``/proc``; of the processes ``known`` by now nothing is read, so ``jobs`` leaves them out.

    Raises OSError when the folder itself cannot be read. A process that ends while being read is simply not there; a
    zombie has an empty environment and does not count.
    """
    jobs: Counter[int] = Counter()
    pids = frozenset(entry.name for entry in proc.iterdir() if entry.name.isdigit())
    for pid in pids - known:
        try:
            environment = (proc / pid / "environ").read_bytes()
        except (FileNotFoundError, ProcessLookupError):
            continue
        for variable in environment.split(b"\0"):
            if variable.startswith(_KEY) and variable[len(_KEY) :].isdigit():
                jobs[int(variable[len(_KEY) :])] += 1
                break
    return Processes(dict(jobs), pids)
