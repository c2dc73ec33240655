"""Which attempt this process belongs to: Slurm starts a requeued job again under the same job id, one restart later."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

_NAME = re.compile(r"^job-(\d+)-attempt-(\d+)$")


@dataclass(frozen=True, order=True)
class Attempt:
    """One run of one job. Later ones are greater: first by job id, then by restart count."""

    job: int
    number: int

    @classmethod
    def from_environment(cls, environ: Mapping[str, str]) -> Attempt:
        """Read SLURM_JOB_ID and SLURM_RESTART_COUNT (unset on the first attempt). Outside Slurm: job 0."""
        return cls(int(environ.get("SLURM_JOB_ID") or 0), int(environ.get("SLURM_RESTART_COUNT") or 0))

    @classmethod
    def parse(cls, name: str) -> Attempt | None:
        """The attempt that `name` stands for, or None for a name of something else."""
        match = _NAME.match(name)
        return cls(int(match[1]), int(match[2])) if match else None

    @property
    def name(self) -> str:
        return f"job-{self.job}-attempt-{self.number}"

    def seen_from(self, other: Attempt) -> str:
        """How to call this attempt in a line that `other` prints."""
        return f"attempt {self.number}" if self.job == other.job else f"attempt {self.number} of job {self.job}"
