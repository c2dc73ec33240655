"""What a researcher does: ssh to the login node with the own key, copy the template, sbatch, look."""

from __future__ import annotations

import subprocess
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from lab.demo.facts import JobFacts, job_fields, nodes_batch_first
from lab.paths import Paths
from lab.reach import ssh_arguments
from lab.toolchain.paths import REPOSITORY
from training.resumable.progress import Step, parse_step

TIMEOUT_SECONDS = 60


class ResearcherError(Exception):
    """A command on the login node failed; the message names it and carries its last line."""


@dataclass(frozen=True, slots=True)
class Researcher:
    """One user of the platform."""

    paths: Paths
    name: str

    def ssh(self, command: str, stdin: bytes | None = None, timeout_seconds: float = TIMEOUT_SECONDS) -> str:
        """Run on the login node; ResearcherError when it fails."""
        program, *arguments = ssh_arguments(self.paths, self.name)
        try:
            done = subprocess.run(
                [program, "-o", "BatchMode=yes", "-o", "ConnectTimeout=5", *arguments, command],
                input=stdin,
                stdin=None if stdin is not None else subprocess.DEVNULL,
                capture_output=True,
                timeout=timeout_seconds,
                check=False,
            )
        except subprocess.TimeoutExpired:
            raise ResearcherError(
                f"'{command[:60]}' as {self.name} gave no answer in {timeout_seconds:.0f} s"
            ) from None
        if done.returncode:
            end = (done.stderr or done.stdout).decode("utf-8", "replace").strip().splitlines()[-1:]
            raise ResearcherError(f"'{command[:60]}' as {self.name} ended with {done.returncode}: {' '.join(end)}")
        return done.stdout.decode("utf-8", "replace")

    def copy_template(self, folder: str = "my-run") -> None:
        """``cp -r training ~/my-run``, over the wire."""
        archive = subprocess.run(
            ["tar", "-C", str(REPOSITORY / "training"), "--exclude=__pycache__", "-czf", "-", "."],
            capture_output=True,
            check=True,
        )
        self.ssh(f"mkdir -p {folder} && tar -C {folder} -xzf -", stdin=archive.stdout)

    def sbatch(self, arguments: str, folder: str = "my-run", environment: str = "") -> int:
        """The job's number."""
        answer = self.ssh(f"cd {folder} && {environment} sbatch --parsable {arguments}")
        return int(answer.strip().splitlines()[-1].partition(";")[0])

    def job(self, job_id: int) -> JobFacts:
        """The job as Slurm's controller tells it now."""
        fields = self._fields(job_id)
        attempts = int(fields.get("Restarts", "0")) + 1
        state = fields.get("JobState", "UNKNOWN")
        started = None if state == "PENDING" else _time(fields.get("StartTime", ""))
        return JobFacts(job_id, attempts, started if attempts == 1 else None, started, state)

    def nodes(self, job_id: int) -> list[str]:
        """Slurm's names of a running job's nodes, the batch host's first; ResearcherError when it has none."""
        try:
            return nodes_batch_first(self._fields(job_id))
        except ValueError as error:
            raise ResearcherError(str(error)) from None

    def _fields(self, job_id: int) -> dict[str, str]:
        return job_fields(self.ssh(f"TZ=UTC scontrol -o show job {job_id}"))

    def home(self) -> Path:
        """The home directory, seen from the file server's side."""
        return self.paths.common / "home" / self.name

    def steps(self, job_id: int) -> list[Step]:
        """Every whole line of the job's step log, in order."""
        log = self.home() / "runs" / str(job_id) / "steps.jsonl"
        if not log.exists():
            return []
        return [step for line in log.read_text("utf-8").splitlines() if (step := parse_step(line)) is not None]

    def log(self, job_id: int, folder: str = "my-run") -> str:
        """What the job printed."""
        path = self.home() / folder / f"train-{job_id}.log"
        return path.read_text("utf-8", "replace") if path.exists() else ""


def _time(text: str) -> datetime | None:
    try:
        return datetime.fromisoformat(text).replace(tzinfo=UTC)
    except ValueError:
        return None
