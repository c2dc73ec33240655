"""The platform as a test sees it: a researcher's jobs, faults, and the records of what was done about them."""

from __future__ import annotations

import json
import os
import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from lab.cluster.bootstrap import kubectl
from lab.cluster.lifecycle import DataCentre
from lab.demo.cluster import StoryError, await_, node_of_worker, sparewheel
from lab.demo.receiver import Inbox
from lab.demo.researcher import Researcher, ResearcherError
from lab.machines.inventory import load_inventory
from lab.objects import hosts, objects, remediations
from lab.paths import Paths
from sparewheel.api.gpu_host import GpuHost, HostPhase
from sparewheel.api.names import CONTROLLER_LEASE, NAMESPACE
from sparewheel.api.node_health import NodeHealth
from sparewheel.api.remediation import JobRecord, NodeStage, Outcome, Remediation

JOBS = Path(__file__).parent / "jobs"
HEAL_SECONDS = 240
GRACE_SECONDS = 30
"""Shorter than the stack's file says, so that a test which waits for its end is short; the demo keeps the whole."""


@dataclass(slots=True)
class Platform:
    """A running platform with one researcher."""

    paths: Paths
    alice: Researcher
    inbox: Inbox

    def submit(self, nodes: int = 2, options: str = "", **settings: int) -> int:
        """The trap-and-sleep job; ``settings`` are its environment (SAVE_SECONDS ...)."""
        script = (JOBS / "trap.sbatch").read_bytes()
        self.alice.ssh("mkdir -p jobs && cat > jobs/trap.sbatch", stdin=script)
        words = " ".join(f"{name}={value}" for name, value in settings.items())
        return self.alice.sbatch(f"--gres=gpu:8 -N {nodes} {options} trap.sbatch", "jobs", words)

    def events(self, job: int) -> list[dict[str, Any]]:
        """What the job's ranks wrote down."""
        path = self.alice.home() / "runs" / str(job) / "events.jsonl"
        return [json.loads(line) for line in path.read_text("utf-8").splitlines()] if path.exists() else []

    def await_event(self, job: int, name: str, attempt: int, seconds: float = HEAL_SECONDS) -> dict[str, Any]:
        return self.awaiting(
            f"{name} of attempt {attempt} of job {job}",
            lambda: next((e for e in self.events(job) if (e["event"], e["attempt"]) == (name, attempt)), None),
            seconds,
            lambda: (
                f"events: {[(e['event'], e['attempt'], e['rank']) for e in self.events(job)]}; {self.alice.job(job)}; "
                + "; ".join(self.say(r.metadata.name) for r in remediations(self.paths))
                + f"\n{self.slurm_view()}"
            ),
        )

    def slurm_view(self) -> str:
        """Slurm's own words on its jobs, nodes and reservations, for the message of a test that failed."""
        try:
            return self.alice.ssh(
                "for what in job node res; do scontrol -o show $what; done;"
                " squeue -o '%i %T %r %S %N %p'; sinfo -N -o '%N %T %E'"
            )
        except ResearcherError as error:
            return str(error)

    def running(self, **settings: int) -> tuple[int, list[str]]:
        """A job that trains, and the nodes it trains on, the batch host's first."""
        job = self.submit(2, "", **settings)
        self.await_event(job, "first_step", 0, 90)
        return job, self.nodes_of(job)

    def nodes_of(self, job: int) -> list[str]:
        """Nodes that a running job is on, the batch host's first."""
        return [node_of_worker(self.paths, name) for name in self.alice.nodes(job)]

    def seen_by_agent(self, job: int, node: str) -> None:
        """A job that has ended is known by what was seen of it; one that ends within a look is not."""

        def seen() -> list[int]:
            healths = [NodeHealth.from_wire(item) for item in objects(self.paths, "nodehealths")]
            return [one.job_id for health in healths if health.metadata.name == node for one in health.status.jobs]

        what = f"the agent on {node} has seen job {job}"
        self.awaiting(what, lambda: True if job in seen() else None, 30, lambda: f"seen: {seen()}")

    def end_by_itself(self, job: int) -> None:
        """Its ranks are told to end, by nobody's fault; the batch script ends non-zero."""
        self.alice.ssh(f"scancel --signal=TERM --full {job}")
        self.awaiting(
            "the job has ended by itself",
            lambda: True if self.alice.job(job).state != "RUNNING" else None,
            60,
            lambda: str(self.alice.job(job)),
        )

    def inject(self, node: str, bite: str = "crash", fault: str = "xid79") -> None:
        sparewheel(self.paths, "inject", fault, "--node", node, "--gpu", "3", "--bite", bite)

    def incident(self, node: str, seconds: float = 60) -> Remediation:
        return self.awaiting(
            f"an incident of node {node}",
            lambda: next((r for r in remediations(self.paths) if r.spec.node == node), None),
            seconds,
            lambda: f"incidents: {[r.metadata.name for r in remediations(self.paths)]}",
        )

    def record(self, name: str) -> Remediation:
        return next(r for r in remediations(self.paths) if r.metadata.name == name)

    def await_record(
        self, name: str, what: str, holds: Callable[[Remediation], bool], seconds: float = HEAL_SECONDS
    ) -> Remediation:
        def look() -> Remediation | None:
            record = self.record(name)
            return record if holds(record) else None

        return self.awaiting(what, look, seconds, lambda: self.say(name))

    def healed(self, name: str) -> Remediation:
        return self.await_record(name, f"{name} is healed", lambda r: r.status.outcome is Outcome.HEALED)

    def told_of_the_wait(self) -> None:
        self.awaiting(
            "people are told of the wait",
            lambda: self.inbox.of("incident.waiting") or None,
            60,
            lambda: str([message.body.get("event") for message in self.inbox.messages]),
        )

    def job_record(self, name: str, job: int) -> JobRecord:
        return next(j for j in self.record(name).status.jobs if j.job_id == job)

    def say(self, name: str) -> str:
        status = self.record(name).status
        jobs = [(j.job_id, j.attempt_after, j.message) for j in status.jobs]
        return f"{name}: {status.outcome} in {status.stage}, waits for {status.waiting_for!r}, jobs {jobs}"

    def host(self, name: str) -> GpuHost:
        return hosts(self.paths)[name]

    def node_exists(self, name: str) -> bool:
        return bool(kubectl(self.paths, "get", "node", name, "--ignore-not-found", "-o", "name").strip())

    @contextmanager
    def no_spares(self) -> Iterator[None]:
        """Every spare is away for repair."""
        spares = [host.metadata.name for host in hosts(self.paths).values() if host.status.phase is HostPhase.SPARE]
        for name in spares:
            self._patch_host(name, {"status": {"phase": HostPhase.QUARANTINED, "reason": "away for repair"}})
        try:
            yield
        finally:
            for name in spares:
                self._patch_host(name, {"status": {"phase": HostPhase.SPARE, "reason": ""}})

    def give_back(self, name: str) -> None:
        """A quarantined host repaired, and a spare again, while an incident waits for one."""
        DataCentre(self.paths).repair(load_inventory(self.paths.state).host(name))
        kubectl(self.paths, "delete", "node", name, "--ignore-not-found", "--wait=true")
        self._patch_host(name, {"status": {"phase": HostPhase.SPARE, "reason": "", "nodeName": None}})

    def _patch_host(self, name: str, patch: dict[str, Any]) -> None:
        kubectl(
            self.paths, "-n", NAMESPACE, "patch", "gpuhosts.sparewheel.dev", name, "--subresource=status",
            "--type=merge", "-p", json.dumps(patch),
        )  # fmt: skip

    def leader(self) -> str:
        """Pod of the controller that leads."""
        path = "jsonpath={.spec.holderIdentity}"
        holder = kubectl(self.paths, "-n", NAMESPACE, "get", "lease", CONTROLLER_LEASE, "-o", path)
        return holder.partition("_")[0]

    def kill_leader(self) -> str:
        """SIGKILL to the leading controller's process; the name of its pod."""
        pod = self.leader()
        for entry in Path("/proc").iterdir():
            if not entry.name.isdigit():
                continue
            try:
                command = (entry / "cmdline").read_bytes()
                environment = (entry / "environ").read_bytes().split(b"\0")
            except OSError:
                continue
            if b"sparewheel.remediation.controller" in command and f"POD_NAME={pod}".encode() in environment:
                os.kill(int(entry.name), signal.SIGKILL)
                return pod
        raise AssertionError(f"no process of pod {pod}")

    def kill_when(self, name: str, stage: NodeStage) -> str:
        """SIGKILL the leader as soon as the incident's ``stage`` has begun."""
        self.await_record(name, f"{stage} begins", lambda r: any(s.name is stage for s in r.status.stages))
        return self.kill_leader()

    @staticmethod
    def awaiting(what: str, look: Callable[[], Any], seconds: float, seen: Callable[[], str]) -> Any:
        try:
            return await_(what, look, seconds=seconds, seen=seen)
        except StoryError as error:
            pytest.fail(str(error))


def ssh_works(researcher: Researcher) -> bool | None:
    try:
        researcher.ssh("true")
    except ResearcherError:
        return None
    return True
