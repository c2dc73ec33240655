"""What the demo saw, as plain data: the checks and the picture are made from it, never from a live cluster."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from datetime import datetime

from lab.demo.receiver import Message
from sparewheel.api.gpu_host import GpuHost
from sparewheel.api.remediation import JobRecord, Remediation
from sparewheel.cli.timeline import zero
from sparewheel.slurm.hostlist import expand
from training.resumable.progress import Step


@dataclass(frozen=True, slots=True)
class JobFacts:
    """One Slurm job as it was at the end. Times are Slurm's, whole seconds."""

    job_id: int
    attempts: int
    first_start: datetime | None
    """Start of attempt 0."""
    last_start: datetime | None
    """Start of the newest attempt; None while it waits."""
    state: str


def job_fields(text: str) -> dict[str, str]:
    """What ``scontrol -o show job`` says, by name."""
    return dict(re.findall(r"(\w+)=(\S*)", text))


def nodes_batch_first(fields: dict[str, str]) -> list[str]:
    """Slurm nodes of a running job, the batch host's first; ValueError when it has none.

    Slurm lists nodes by name, and ranks follow its own table of nodes: only BatchHost says where the script runs.
    """
    names, batch_host = expand(fields.get("NodeList", "").replace("(null)", "")), fields.get("BatchHost", "")
    if batch_host not in names:
        raise ValueError(f"job {fields.get('JobId', '?')} runs on {list(names)}, batch host {batch_host!r}")
    return [batch_host, *(name for name in names if name != batch_host)]


@dataclass(frozen=True, slots=True)
class Facts:
    record: Remediation
    hosts: dict[str, GpuHost]
    bad_node: str
    struck: JobFacts
    rival: JobFacts
    steps: list[Step]
    """All lines of the struck job's log, in order, repeats too."""
    reference: dict[int, Step]
    """The same run without interruption: step number to line."""
    first_step_of_attempt_0: datetime
    messages: list[Message]
    repeats: int
    launched_at: dict[int, datetime | None]
    """By attempt, when its last launcher began; None where it was not seen."""
    saved_at: datetime | None = None
    """When the struck attempt's last checkpoint was whole."""
    quiet_checks: dict[str, bool] = field(default_factory=dict[str, bool])
    """``preview before`` and the like: did Pulumi see no change?"""

    @property
    def job(self) -> JobRecord | None:
        return next((job for job in self.record.status.jobs if job.job_id == self.struck.job_id), None)

    @property
    def fault_at(self) -> datetime:
        """The zero of all times: the fault's line in the kernel's log, as `sparewheel timeline` counts too."""
        return zero(self.record)

    @property
    def load_seconds(self) -> float:
        """Last launcher to first step of attempt 0: what this job needs to come up, whatever the platform does.

        0 where its launchers were not seen: then nothing is taken off.
        """
        launched = self.launched_at.get(0)
        return 0.0 if launched is None else (self.first_step_of_attempt_0 - launched).total_seconds()

    @property
    def save_seconds(self) -> float:
        """From the strike to the last checkpoint: what this job needs to save, whatever the platform does."""
        struck = self.record.status.owned.slurm_struck_at
        if struck is None or self.saved_at is None:
            return 0.0
        return max(0.0, (self.saved_at - struck).total_seconds())

    def last_step_before(self, attempt: int) -> int:
        return max((step.step for step in self.steps if step.attempt < attempt), default=0)

    def first_step_of(self, attempt: int) -> Step | None:
        return next((step for step in self.steps if step.attempt == attempt), None)
