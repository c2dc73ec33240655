"""One run of the story, from a healthy platform to a healed one, and the facts it left behind."""

from __future__ import annotations

import concurrent.futures
import threading
from datetime import UTC, datetime
from pathlib import Path

from lab import stack
from lab.demo.cluster import StoryError, await_, node_of_worker, sparewheel
from lab.demo.facts import Facts, JobFacts
from lab.demo.launchers import launched_at
from lab.demo.receiver import Inbox
from lab.demo.researcher import Researcher, ResearcherError
from lab.objects import hosts, remediations
from lab.paths import Paths
from lab.toolchain.progress import note, step
from sparewheel.api.remediation import Outcome, Remediation
from sparewheel.cli.timeline import zero
from training.resumable.progress import Step, parse_step

STEPS = 240
STEP_SECONDS = 0.25
CHECKPOINT_EVERY = 50
FAULT_AFTER_STEP = 60
GPU = 3
JOB = f"train.sbatch --steps {STEPS} --step-seconds {STEP_SECONDS} --checkpoint-every {CHECKPOINT_EVERY}"
JOB_ENVIRONMENT = "RANKS_PER_NODE=1"
START_SECONDS, RESUME_SECONDS, HEAL_SECONDS = 120, 420, 600


class Story:
    """The cast: two researchers on one platform. ``bite``: what the fault does to the rank on the GPU."""

    def __init__(self, paths: Paths, inbox: Inbox, bite: str = "crash") -> None:
        self.paths = paths
        self.inbox = inbox
        self.bite = bite
        self.alice = Researcher(paths, "alice")
        self.bob = Researcher(paths, "bob")
        self.quiet: dict[str, bool] = {}
        self._login_error = ""

    def tell(self) -> Facts:
        """The whole run. StoryError when it does not go on; the checks judge the rest."""
        self._look("before")
        with step("alice and bob log in for the first time", 5):
            self._log_in()
        struck = self.alice.sbatch(JOB, environment=JOB_ENVIRONMENT)
        with step(f"job {struck} of alice: two nodes, 16 GPUs, up to step {FAULT_AFTER_STEP}", 45):
            first = await_(
                "the first step", lambda: self._step(struck, 1), seconds=START_SECONDS, seen=lambda: self._say(struck)
            )
            launched = {0: launched_at(Path("/proc"), struck, 0)}
            before = self.alice.job(struck)
            rival = self.bob.sbatch(JOB, environment=JOB_ENVIRONMENT)
            await_(f"step {FAULT_AFTER_STEP}", lambda: self._step(struck, FAULT_AFTER_STEP), seconds=START_SECONDS)
        note(f"  job {rival} of bob, the same size, waits for the same nodes")
        bad_node = node_of_worker(self.paths, self.alice.nodes(struck)[-1])  # the one without the batch script
        known = {record.metadata.name for record in remediations(self.paths)}
        note(f"  XID 79 on GPU {GPU} of {bad_node}: {sparewheel(self.paths, *self._injection(bad_node))}")
        record = self._heal(struck, known, launched)
        reference = self._reference()
        self._look("after")
        after, rival_after = self.alice.job(struck), self.bob.job(rival)
        self._clear(struck, rival)
        return Facts(
            record=record,
            hosts=hosts(self.paths),
            bad_node=bad_node,
            struck=JobFacts(struck, after.attempts, before.first_start, after.last_start, after.state),
            rival=rival_after,
            steps=self.alice.steps(struck),
            reference=reference.result(timeout=START_SECONDS),
            first_step_of_attempt_0=datetime.fromisoformat(first.time),
            launched_at=launched,
            messages=[m for m in self.inbox.messages if m.body.get("remediation") == record.metadata.name],
            repeats=self.inbox.repeats,
            saved_at=self._saved_at(struck),
            quiet_checks=self.quiet,
        )

    def _saved_at(self, job: int) -> datetime | None:
        """When the last checkpoint of the first attempt got its manifest, which comes last."""
        folder = self.alice.home() / "runs" / str(job) / "checkpoints" / f"job-{job}-attempt-0"
        times = [path.stat().st_mtime for path in folder.glob("*/manifest.json")]
        return datetime.fromtimestamp(max(times), UTC) if times else None

    def _injection(self, node: str) -> list[str]:
        return ["inject", "xid79", "--node", node, "--gpu", str(GPU), "--bite", self.bite]

    def _log_in(self) -> None:
        for researcher in (self.alice, self.bob):
            await_(
                f"{researcher.name} can log in",
                lambda who=researcher: self._copied(who),
                seconds=START_SECONDS,
                seen=lambda: self._login_error,
            )

    def _copied(self, researcher: Researcher) -> bool | None:
        try:
            researcher.copy_template()
        except ResearcherError as error:
            self._login_error = str(error)
            return None
        return True

    def _reference(self) -> concurrent.futures.Future[dict[int, Step]]:
        """The same training without interruption and without Slurm, on the login node.

        Once all that is timed is over: beside the struck job's start it would lengthen the load that is taken off.
        """

        def run() -> dict[int, Step]:
            self.alice.ssh(
                "cd my-run && rm -rf ~/reference && python3 launch.py --nproc-per-node 2 train.py "
                f"--steps {STEPS} --checkpoint-every {CHECKPOINT_EVERY} --run-dir ~/reference >reference.log 2>&1",
                timeout_seconds=RESUME_SECONDS,
            )
            lines = (self.alice.home() / "reference" / "steps.jsonl").read_text("utf-8").splitlines()
            found = [parsed for line in lines if (parsed := parse_step(line)) is not None]
            return {parsed.step: parsed for parsed in found}

        future: concurrent.futures.Future[dict[int, Step]] = concurrent.futures.Future()

        def work() -> None:
            try:
                future.set_result(run())
            except Exception as error:  # noqa: BLE001 (handed to whoever asks for the result)
                future.set_exception(error)

        threading.Thread(target=work, daemon=True, name="reference-run").start()
        return future

    def _step(self, job: int, number: int, attempt: int = 0) -> Step | None:
        return next((s for s in self.alice.steps(job) if s.step >= number and s.attempt >= attempt), None)

    def _heal(self, struck: int, known: set[str], launched: dict[int, datetime | None]) -> Remediation:
        """Each step says how long the demo looked for it; what is noted after it, when it really was."""

        with step("seen: the fault is recorded; nobody acts", 60):
            new = await_("the incident is recorded", lambda: self._new(known), seconds=60)

        def real(what: str, at: datetime) -> None:
            note(f"  {what} {(at - zero(new)).total_seconds():.1f} s after the fault")

        self._look("during")
        with step("seen: the job resumes from its checkpoint", 60):
            first = await_(
                "the first new step",
                lambda: self._step(struck, 1, attempt=1),
                seconds=RESUME_SECONDS,
                seen=lambda: self._say(struck),
            )
        launched[first.attempt] = launched_at(Path("/proc"), struck, first.attempt)
        real("the first new step was done", datetime.fromisoformat(first.time))
        note(f"  {sparewheel(self.paths, 'why', str(struck))}")
        with step("seen: the node is replaced and the record closed", 90):
            record = await_(
                "the incident is healed",
                lambda: self._closed(new.metadata.name, struck),
                seconds=HEAL_SECONDS,
                seen=self._waiting,
            )
        ends = [stage.ended_at for stage in record.status.stages if stage.ended_at is not None]
        if ends:
            real("the record was closed", max(ends))
        return record

    def _new(self, known: set[str]) -> Remediation | None:
        return next((r for r in remediations(self.paths) if r.metadata.name not in known), None)

    def _closed(self, name: str, job: int) -> Remediation | None:
        record = next((r for r in remediations(self.paths) if r.metadata.name == name), None)
        if record is None:
            raise StoryError(f"the record {name} is gone")
        followed = next((j for j in record.status.jobs if j.job_id == job), None)
        told = all(delivery.delivered_at for delivery in record.status.outbox)
        done = record.status.outcome is not Outcome.OPEN and told and followed is not None and followed.closed
        return record if done else None

    def _waiting(self) -> str:
        return "; ".join(
            f"{r.metadata.name} {r.status.stage} waits for {r.status.waiting_for!r}" for r in remediations(self.paths)
        )

    def _say(self, job: int) -> str:
        try:
            facts = self.alice.job(job)
        except ResearcherError as error:
            return str(error)
        end = self.alice.log(job).strip().splitlines()[-1:]
        return f"job {job} is {facts.state}, its log ends with {end}"

    def _look(self, when: str) -> None:
        for name, look in (("preview", stack.preview_no_changes), ("refresh", stack.refresh_no_changes)):
            try:
                look(self.paths)
                self.quiet[f"{name} {when}"] = True
            except stack.StackError as error:
                note(f"  {name} {when}: {error}")
                self.quiet[f"{name} {when}"] = False

    def _clear(self, *jobs: int) -> None:
        for researcher, job in zip((self.alice, self.bob), jobs, strict=True):
            researcher.ssh(f"scancel {job}")
