"""``python -m bench.plain_slurm``: a host loses its power under a two-node job: plain Slurm beside ours, in one run.

Both run on this machine's data centre, one after the other: same job, same three hosts, the struck one without the
batch script, no rival. ``ratio_vs_plain_slurm`` is plain's time to the job's first new step by ours, both whole: with
what the job itself needs to save and to start.

Ours: as a stack has it by default. Two hosts serve, the third is a warm spare: in Slurm, behind a reservation. With
``--cold`` it is outside the cluster and has to join.
Plain: all three serve, so the third is idle and registered, which is better than ours has it; no controller of ours
runs. Slurm goes by its own defaults: SlurmdTimeout 300 s, SchedulerParameters (requeue_delay, sched_interval,
bf_interval), KillWait and ReturnToService as Slurm has them, no expedited requeue and no submit filter. The job says
``--requeue``; without it plain Slurm would not start it again at all. Not plain: workers are pods under Slinky's rules,
and MinJobAge and the lines that this machine needs (no cgroup v2, pretended GPUs) stay.

What was changed is put back at the end, and at the next start where this one was killed.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path

from bench.processes import BenchError, await_
from bench.results import RESULTS, keep, show
from bench.struck_job import Marks, figures_of, marked, ratio, seen_in
from components.names import CONTROLLER, SLURM
from lab.cluster.bootstrap import kubectl
from lab.cluster.lifecycle import DataCentre
from lab.demo.__main__ import ERRORS, stage
from lab.demo.cluster import await_ as await_story
from lab.demo.cluster import node_of_worker
from lab.demo.receiver import receiver
from lab.demo.researcher import Researcher, ResearcherError
from lab.demo.story import FAULT_AFTER_STEP, JOB, JOB_ENVIRONMENT, START_SECONDS
from lab.machines.inventory import MACHINE_IP, ONCALL_PORT, load_inventory
from lab.objects import stack_is_up
from lab.paths import Paths, paths_from_environment
from lab.restore import repair, restore, slurm, struck_hosts
from lab.toolchain.progress import note, step
from sparewheel.api.names import NAMESPACE
from training.resumable.progress import Step

KEPT = RESULTS.parent / "plain-slurm-extra-conf.txt"
"""Our lines of slurm.conf while plain ones stand in their place."""
OURS = ("KillWait", "ReturnToService", "JobSubmitPlugins", "SlurmctldParameters", "SchedulerParameters", "HealthCheck")
"""Lines of ours that change what Slurm does about a lost host, by how they begin."""
CONFIG_SECONDS = 180.0
LIMIT_SECONDS = 900.0
ENDED_SECONDS = 60.0
LOOK_SECONDS = 1.0


def plain_conf(extra_conf: str) -> str:
    """Our lines of slurm.conf without those that plain Slurm has not."""
    return "\n".join(line for line in extra_conf.splitlines() if not line.startswith(OURS))


# ------------------------------------------------------------------ the platform, ours or plain
@contextmanager
def plain(paths: Paths) -> Iterator[None]:
    """Three hosts serve, Slurm's own defaults, no controller of ours."""
    try:
        restore(paths)  # all three hosts are needed, also the one that was struck
        stage(paths, all_serve=True)
        with step("plain Slurm: its own defaults, no controller of ours", 60):
            conf = _extra_conf(paths)
            KEPT.write_text(conf, "utf-8")
            _configure(paths, plain_conf(conf))
            _scale(paths, 0)
        restore(paths)
        yield
    finally:
        put_back(paths)


def put_back(paths: Paths) -> None:
    """Our lines and our controllers, where plain ones were left."""
    if not KEPT.exists():
        return
    with step("ours again: the struck host repaired, slurm.conf and controllers", 60):
        repair(paths, struck_hosts(paths))  # before a controller of ours can take it for a lost node
        _configure(paths, KEPT.read_text("utf-8"))
        _scale(paths, 2)
    KEPT.unlink()


def _go_on_where_one_was_killed(paths: Paths) -> None:
    if KEPT.exists():
        DataCentre(paths).up()
        if stack_is_up(paths):
            put_back(paths)
        else:
            KEPT.unlink()  # of a data centre that is no more


def _extra_conf(paths: Paths) -> str:
    return kubectl(
        paths, "-n", "slurm", "get", f"controllers.slinky.slurm.net/{SLURM}", "-o", "jsonpath={.spec.extraConf}"
    )


def _configure(paths: Paths, extra_conf: str) -> None:
    """Patch the lines, and restart slurmctld so that it goes by them all."""
    patch = json.dumps({"spec": {"extraConf": extra_conf}})
    kubectl(paths, "-n", "slurm", "patch", f"controllers.slinky.slurm.net/{SLURM}", "--type=merge", "-p", patch)
    expedited = "enable_expedited_requeue" in extra_conf
    name = f"slurmctld goes {'by our lines' if expedited else 'by its own defaults'}"
    await_(f"slurm.conf: {name}", CONFIG_SECONDS, lambda: _written(paths) is expedited, LOOK_SECONDS)
    kubectl(paths, "-n", "slurm", "delete", "pod", "slurm-controller-0", "--wait=true", timeout_seconds=CONFIG_SECONDS)
    await_(name, CONFIG_SECONDS, lambda: _running(paths) is expedited, LOOK_SECONDS)


def _written(paths: Paths) -> bool | None:
    """Does the text that slurmctld will read ask for the expedited requeue? None: it can't be told now."""
    try:
        return "enable_expedited_requeue" in slurm(paths, "cat /etc/slurm/slurm.conf")
    except ERRORS:
        return None


def _running(paths: Paths) -> bool | None:
    """Does slurmctld use the expedited requeue? None: it can't be told now."""
    try:
        return "enable_expedited_requeue" in slurm(paths, "scontrol show config | grep ^SlurmctldParameters")
    except ERRORS:
        return None


def _scale(paths: Paths, replicas: int) -> None:
    kubectl(paths, "-n", NAMESPACE, "scale", f"deployment/{CONTROLLER}", f"--replicas={replicas}")
    selector = f"app.kubernetes.io/name={CONTROLLER}"

    def settled() -> bool:
        pods = kubectl(paths, "-n", NAMESPACE, "get", "pods", "-l", selector, "-o", "name").split()
        return len(pods) == replicas

    await_(f"{replicas} controllers", CONFIG_SECONDS, settled, LOOK_SECONDS)
    if replicas:
        kubectl(paths, "-n", NAMESPACE, "rollout", "status", f"deployment/{CONTROLLER}", timeout_seconds=CONFIG_SECONDS)


# ------------------------------------------------------------------ the job
def struck(paths: Paths, alice: Researcher, limit_seconds: float) -> Marks:
    """A job runs, a host of it loses its power; what was seen until the job's first new step."""
    _log_in(alice)
    job = alice.sbatch(JOB, environment=JOB_ENVIRONMENT)
    with step(f"job {job}: two nodes, up to step {FAULT_AFTER_STEP}", 45):
        await_story(f"step {FAULT_AFTER_STEP}", lambda: _step(alice, job, FAULT_AFTER_STEP), seconds=2 * START_SECONDS)
    slurm_node = alice.nodes(job)[-1]
    node = node_of_worker(paths, slurm_node)
    marks = Marks(killed_at=datetime.now(UTC))
    note(f"  the power of {node} is cut")
    DataCentre(paths).power.crash(load_inventory(paths.state).host(node))
    with step("the job's first new step", 400):
        until = time.monotonic() + limit_seconds
        while marks.first_step_at is None:
            if time.monotonic() > until:
                raise BenchError(f"job {job} took no new step in {limit_seconds:.0f} s; so far: {marks}")
            marks = _look(alice, job, slurm_node, marks)
            time.sleep(LOOK_SECONDS)
    alice.ssh(f"scancel {job}")
    return marks


def _look(alice: Researcher, job: int, slurm_node: str, marks: Marks) -> Marks:
    asked_at = datetime.now(UTC)
    try:
        text = alice.ssh(f"export TZ=UTC; scontrol -o show job {job}; scontrol -o show node {slurm_node}")
    except ResearcherError:
        return marks  # looked at again
    new = _step(alice, job, 1, attempt=1)
    marks = marked(marks, seen_in(text), asked_at, None if new is None else datetime.fromisoformat(new.time))
    if marks.ended_at is not None and (asked_at - marks.ended_at).total_seconds() > ENDED_SECONDS:
        raise BenchError(f"job {job} ended and nothing starts it again; so far: {marks}")
    return marks


def _step(alice: Researcher, job: int, number: int, attempt: int = 0) -> Step | None:
    return next((s for s in alice.steps(job) if s.step >= number and s.attempt >= attempt), None)


def _log_in(alice: Researcher) -> None:
    def copied() -> bool:
        try:
            alice.copy_template()
        except ResearcherError:
            return False
        return True

    await_(f"{alice.name} can log in", START_SECONDS, copied, LOOK_SECONDS)


def measure(paths: Paths, limit_seconds: float, told: Path, *, cold: bool) -> dict[str, float]:
    alice = Researcher(paths, "alice")
    _go_on_where_one_was_killed(paths)
    stage(paths, warm=not cold)
    with receiver(MACHINE_IP, ONCALL_PORT, told):
        note(f"ours: two hosts serve, one is a {'cold' if cold else 'warm'} spare")
        ours = struck(paths, alice, limit_seconds)
        note("plain Slurm: three hosts serve, one of them idle")
        with plain(paths):
            theirs = struck(paths, alice, limit_seconds)
    prefix = "cold_" if cold else ""
    return {
        **figures_of(f"{prefix}ours", ours),
        **figures_of("plain_slurm", theirs),
        f"{prefix}ratio_vs_plain_slurm": ratio(theirs, ours),
    }


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m bench.plain_slurm", description=__doc__)
    parser.add_argument("--limit", type=float, default=LIMIT_SECONDS, help="seconds to wait for a first new step")
    parser.add_argument("--cold", action="store_true", help="ours with a spare that has to join")
    options = parser.parse_args()
    limit_seconds: float = options.limit
    paths = paths_from_environment()
    KEPT.parent.mkdir(parents=True, exist_ok=True)
    try:
        figures = measure(paths, limit_seconds, KEPT.parent / "told.jsonl", cold=options.cold)
        keep(figures)
        show(figures)
        stage(paths)
    except (*ERRORS, BenchError) as error:
        sys.exit(f"error: {error}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
