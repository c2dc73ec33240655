"""Warm spares on real Slurm: nothing ever runs on one before the strike, and the struck job is on it a second after."""

from __future__ import annotations

import os
import time
from datetime import datetime

import pytest

from lab import stack
from lab.cluster.bootstrap import kubectl
from lab.cluster.shell import CommandError
from lab.demo.researcher import ResearcherError
from lab.machines.inventory import load_inventory
from lab.restore import repair, restore, slurm
from sparewheel.api.gpu_host import HostPhase
from sparewheel.api.remediation import Outcome
from sparewheel.cli.timeline import zero
from tests.lab.platform import GRACE_SECONDS, HEAL_SECONDS, Platform
from tests.lab.warm import SAVE_SECONDS, node_of, pending, reserved, seconds_lost, spare_node, state_of

pytestmark = pytest.mark.timeout(600)

long = pytest.mark.skipif(
    "SPAREWHEEL_WARM_TESTS" not in os.environ,
    reason="ten minutes with the others of its kind; SPAREWHEEL_WARM_TESTS=1 runs it",
)
RESUME_SECONDS = 6.0
"""The most that may pass from the save to the first new step."""
CRASHED_SECONDS = 15.0
"""And from the fault, where there was nothing to save: half of the grace, which such a job once waited for."""


@pytest.fixture(scope="module")
def warm(standing: Platform) -> Platform:
    """The same platform with warm spares. It stays so: these tests are the last, and `standing` begins without."""
    restore(standing.paths)
    stack.choose(standing.paths, warm_spares=True)
    stack.up(standing.paths, grace_seconds=GRACE_SECONDS)
    return standing


@pytest.fixture
def platform(warm: Platform) -> Platform:
    restore(warm.paths)
    warm.inbox.messages.clear()
    return warm


def test_a_lost_reservation_is_made_again_and_a_spare_takes_no_work(platform: Platform) -> None:
    spare = spare_node(platform)
    slurm(platform.paths, f"scontrol delete reservation=sparewheel-spare-{spare}")
    Platform.awaiting("it is reserved again", lambda: reserved(platform, spare), 30, lambda: state_of(platform, spare))
    everything, small = platform.submit(3), platform.submit(2)
    platform.await_event(small, "first_step", 0)
    assert pending(platform, everything), "three nodes are more than users have"
    assert spare not in platform.alice.nodes(small)


@long
def test_the_reservation_outlives_slurmctld(platform: Platform) -> None:
    spare = spare_node(platform)
    made = slurm(platform.paths, "scontrol show res -o")
    kubectl(platform.paths, "-n", "slurm", "delete", "pod", "slurm-controller-0", "--wait=true", timeout_seconds=150)
    Platform.awaiting(
        "slurmctld is back with it", lambda: _answers(platform, spare), 120, lambda: "slurmctld does not answer"
    )
    begun = made.split("StartTime=")[1].split()[0]
    assert f"StartTime={begun}" in slurm(platform.paths, "scontrol show res -o"), "the same one, not a new one"


def _answers(platform: Platform, spare: str) -> bool | None:
    try:
        return reserved(platform, spare)
    except CommandError:  # no pod, no container, no daemon yet
        return None


@long
def test_no_job_lands_on_a_spare_that_registers_for_the_first_time(platform: Platform) -> None:
    """Its pod and Slurm's record of it go while jobs wait for any node; it registers as a new one."""
    spare = spare_node(platform)
    jobs = [platform.submit(1) for _ in range(4)]
    slurm(platform.paths, f"scontrol update nodename={spare} state=down reason=test")
    slurm(platform.paths, f"scontrol delete reservation=sparewheel-spare-{spare}; scontrol delete nodename={spare}")
    kubectl(platform.paths, "-n", "slurm", "delete", "pod", spare, "--wait=true")
    seen: list[str] = []
    there: set[str] = set()
    deadline = time.monotonic() + 90
    while not seen or "MAINTENANCE" not in seen[-1] or "DRAIN" in seen[-1]:
        assert time.monotonic() < deadline, f"it does not stand by again: {seen[-3:]}"
        text = state_of(platform, spare)
        if text:
            seen.append(" ".join(text.split()))
            there |= set(slurm(platform.paths, f"squeue -h -w {spare} -o %i 2>/dev/null || true").split())
        time.sleep(0.1)
    assert "DRAIN" in seen[0], f"it registers drained: {seen[0]}"
    assert not there, f"jobs ran there: {there}"
    assert sum(pending(platform, job) for job in jobs) == len(jobs) - 2, "the members run one each, nobody the others"


def test_the_struck_job_goes_on_a_second_after_its_save_and_no_rival_gets_in_between(platform: Platform) -> None:
    spare = spare_node(platform)
    job, (_, second) = platform.running(SAVE_SECONDS=SAVE_SECONDS)
    small, rival = platform.submit(1), platform.submit(2)
    platform.inject(second)
    name = platform.incident(second).metadata.name
    lost = seconds_lost(platform, job)
    assert lost < RESUME_SECONDS, f"{lost:.1f} s from the save to the first new step"
    assert pending(platform, small)
    assert pending(platform, rival)
    assert spare in platform.alice.nodes(job)
    record = platform.healed(name)
    assert record.status.replacement.spare_slurm_node == spare
    assert f"Slurm node {spare} took the place of {record.spec.slurm_node}" in record.status.message
    assert platform.alice.job(job).attempts == 2


@long
def test_a_job_that_crashed_before_the_fence_goes_on_on_the_spare(platform: Platform) -> None:
    spare = spare_node(platform)
    job, (_, second) = platform.running()
    platform.end_by_itself(job)
    platform.inject(second, bite="silent")
    name = platform.incident(second).metadata.name
    first = datetime.fromisoformat(platform.await_event(job, "first_step", 1)["time"])
    assert spare in platform.alice.nodes(job)
    lost = (first - zero(platform.healed(name))).total_seconds()
    assert lost < CRASHED_SECONDS, f"{lost:.1f} s from the fault to the first new step"


@long
def test_two_strikes_in_one_job_the_second_waits_for_a_spare(platform: Platform) -> None:
    job, (first, second) = platform.running()
    platform.inject(second)
    one = platform.incident(second).metadata.name
    platform.await_event(job, "first_step", 1)
    platform.healed(one)
    platform.inject(first)
    two = platform.incident(first).metadata.name
    platform.await_record(two, "it waits for a spare", lambda r: "spare" in r.status.waiting_for)
    assert platform.node_exists(first)
    platform.give_back(second)
    platform.await_event(job, "first_step", 2)
    assert platform.healed(two).status.replacement.spare_host == second


WAYS = {
    "batch jobs": (
        "sbatch --wrap 'sleep 600'",
        "sbatch --no-requeue --wrap 'sleep 600'",
    ),
    "an array": ("sbatch --array=1-2 --wrap 'sleep 600'",),
    "interactive": ("srun sleep 600", "salloc sleep 600"),
}

HETEROGENEOUS = """#!/bin/sh
#SBATCH -N 1 --gres=gpu:8
#SBATCH hetjob
#SBATCH -N 1 --gres=gpu:8
srun --het-group=0,1 sleep 600
"""


def members(platform: Platform) -> list[str]:
    """Slurm nodes in service that run nothing."""
    states = slurm(platform.paths, "sinfo -N -h -o '%N %T'").splitlines()
    return sorted(line.split()[0] for line in states if line.endswith(" idle"))


def parts_run(platform: Platform, leader: int) -> dict[str, str] | None:
    """Slurm node of each part of a heterogeneous job, once both run."""
    lines = slurm(platform.paths, "squeue -h -t R -o '%i %N'").splitlines()
    places = dict(line.split() for line in lines if line.startswith(f"{leader}+"))
    return places if len(places) == 2 else None


@long
@pytest.mark.parametrize("part", [0, 1])
def test_a_heterogeneous_job_comes_back_as_a_whole(platform: Platform, part: int) -> None:
    """Slurm ends and requeues all of it, whichever part is struck."""
    spare = spare_node(platform)
    platform.alice.ssh("mkdir -p jobs && cat > jobs/het.sbatch", stdin=HETEROGENEOUS.encode())
    leader = platform.alice.sbatch("het.sbatch", "jobs")

    def awaited(what: str) -> dict[str, str]:
        return Platform.awaiting(
            what, lambda: parts_run(platform, leader), 60, lambda: slurm(platform.paths, "squeue -a; sinfo -N")
        )

    before = awaited("both parts run")
    struck = before[f"{leader}+{part}"]
    platform.inject(node_of(platform, struck), bite="silent")
    record = platform.healed(platform.incident(node_of(platform, struck)).metadata.name)
    assert {job.job_id for job in record.status.jobs} == {leader, leader + 1}
    assert not any(job.not_requeued_reason for job in record.status.jobs)
    after = awaited("both parts run again")
    assert set(after.values()) == {spare, *before.values()} - {struck}
    assert "sparewheel-hold" not in slurm(platform.paths, "scontrol show res -o")


@long
@pytest.mark.parametrize("way", WAYS)
def test_several_jobs_on_a_node_and_every_way_of_submitting(platform: Platform, way: str) -> None:
    """Each is told what becomes of it; those that Slurm may start again do, on the spare."""
    member = members(platform)[0]
    spare, node = spare_node(platform), node_of(platform, member)
    for command in WAYS[way]:
        verb, _, rest = command.partition(" ")
        text = f"{verb} -w {member} -n 1 --mem=64 --gres=gpu:1 {rest}"
        platform.alice.ssh(text if verb == "sbatch" else f"nohup {text} >/dev/null 2>&1 &")
    Platform.awaiting(
        "two jobs run there",
        lambda: True if len(slurm(platform.paths, f"squeue -h -w {member} -t R -o %i").split()) == 2 else None,
        60,
        lambda: slurm(platform.paths, "squeue -a"),
    )
    platform.inject(node, bite="silent")
    name = platform.incident(node).metadata.name
    record = platform.healed(name)
    assert len(record.status.jobs) == 2
    assert record.status.replacement.spare_slurm_node == spare
    for job in record.status.jobs:
        told = platform.job_record(name, job.job_id)
        comes_back = way == "an array" or (way == "batch jobs" and not told.not_requeued_reason)
        assert comes_back == (told.requeued_at is not None), told.message
    assert record.status.outcome is Outcome.HEALED


@long
def test_the_repaired_host_stands_by_again_under_the_struck_name(platform: Platform) -> None:
    job, (_, second) = platform.running(SAVE_SECONDS=1)
    platform.inject(second)
    name = platform.incident(second).metadata.name
    platform.await_event(job, "first_step", 1)
    struck = platform.healed(name).spec.slurm_node
    assert struck is not None
    repair(platform.paths, [load_inventory(platform.paths.state).host(second)])
    Platform.awaiting(
        "the struck Slurm node stands by",
        lambda: True if "MAINTENANCE" in state_of(platform, struck) and _idle(platform, struck) else None,
        HEAL_SECONDS,
        lambda: state_of(platform, struck),
    )
    assert node_of(platform, struck) == second
    assert platform.host(second).status.phase is HostPhase.SPARE
    assert platform.alice.job(job).state == "RUNNING"


def _idle(platform: Platform, slurm_node: str) -> bool:
    state = next(word for word in state_of(platform, slurm_node).split() if word.startswith("State="))
    return "IDLE" in state and "DRAIN" not in state


@long
def test_switched_off_and_on_again_while_jobs_wait_none_lands_on_the_spare(platform: Platform) -> None:
    """Two jobs run and more wait for any node; each way ends with all workers where they belong."""
    spare = spare_node(platform)
    host = node_of(platform, spare)
    jobs = [platform.submit(1) for _ in range(4)]
    for warm_spares in (False, True):
        stack.choose(platform.paths, warm_spares=warm_spares)
        stack.up(platform.paths, grace_seconds=GRACE_SECONDS)
        ended = running(platform)
        assert len(ended) == 2, "a busy worker is not restarted under its job"
        slurm(platform.paths, f"scancel {' '.join(map(str, ended))}")
        jobs += [platform.submit(1) for _ in range(2)]
        Platform.awaiting(
            f"warm spares are {'on' if warm_spares else 'off'}",
            lambda wanted=warm_spares, gone=ended: _switched(platform, host, gone, warm=wanted),
            HEAL_SECONDS,
            lambda: slurm(platform.paths, "sinfo -N -o '%N %T %E'; squeue -a; scontrol show res -o"),
        )
    assert all(platform.alice.job(job).attempts == 1 for job in jobs)


def running(platform: Platform) -> list[int]:
    return [int(job) for job in slurm(platform.paths, "squeue -h -t R -o %i").split()]


def _switched(platform: Platform, spare_host: str, ended: list[int], *, warm: bool) -> bool | None:
    """Two newer jobs run, none of them on the spare's host, and the reservation is there or not."""
    try:
        now = running(platform)
        places = {node_of(platform, name) for job in now for name in platform.alice.nodes(job)}
    except (CommandError, ResearcherError):
        return None  # it has just ended, or its worker goes
    assert spare_host not in places, f"jobs {now} run on {places}"
    kept = "sparewheel-spare" in slurm(platform.paths, "scontrol show res -o")
    workers = kubectl(platform.paths, "-n", "slurm", "get", "pods", "-l", "app.kubernetes.io/name=slurmd", "-o", "name")
    known = set(slurm(platform.paths, "sinfo -N -h -o %N").split())  # a worker that is gone for good leaves no node
    right = len(now) == 2 and not set(now) & set(ended) and len(known) == len(workers.split()) == (3 if warm else 2)
    return True if right and kept == warm else None
