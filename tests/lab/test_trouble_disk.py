"""A GPU dies while a disk is full: only what was saved whole is loaded, it heals, Slurm keeps its jobs. Opt-in.

SPAREWHEEL_TROUBLE_TESTS=1 python -m pytest tests/lab/test_trouble_disk.py

The common disk is a file system of its own here, so the data centre is made anew, and taken down at the end.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from lab import stack
from lab.cluster.bootstrap import kubectl
from lab.cluster.lifecycle import DataCentre
from lab.cluster.shell import run
from lab.demo.cluster import sparewheel
from lab.demo.receiver import receiver
from lab.demo.researcher import Researcher
from lab.images.ensure import ensure_images
from lab.machines.inventory import MACHINE_IP, ONCALL_PORT
from lab.machines.ssh import ssh
from lab.paths import Paths
from lab.restore import restore, slurm
from sparewheel.api.names import NAMESPACE, NODE_STATE_FOLDER, POLICY_NAME
from sparewheel.api.remediation import NodeStage
from tests.lab.common_disk import CommonDisk, own_file_system
from tests.lab.platform import GRACE_SECONDS, Platform, ssh_works
from tests.lab.trouble import gone_on, kill_processes, lasts, processes, settled
from tests.lab.waiting import eventually
from training.resumable.checkpoint import MANIFEST, load
from training.resumable.progress import read_steps

pytestmark = [
    pytest.mark.wipes_everything,
    pytest.mark.timeout(900),
    pytest.mark.skipif(os.environ.get("SPAREWHEEL_TROUBLE_TESTS") != "1", reason="needs SPAREWHEEL_TROUBLE_TESTS=1"),
]
SLURM_USER = 401
BOBS_GROUP = 20002
EVERY = 20


@pytest.fixture(scope="module")
def disk(lab_paths: Paths) -> Iterator[CommonDisk]:
    """The data centre on a common disk of its own."""
    centre = DataCentre(lab_paths)
    assert centre.down() == []
    ensure_images(lab_paths)
    with own_file_system(lab_paths, SLURM_USER, BOBS_GROUP) as found:
        centre.up()
        yield found
    assert centre.down() == []


@pytest.fixture(scope="module")
def built(disk: CommonDisk, lab_paths: Paths) -> Iterator[Platform]:
    del disk
    stack.choose(lab_paths, warm_spares=False)
    stack.up(lab_paths, grace_seconds=GRACE_SECONDS)
    with receiver(MACHINE_IP, ONCALL_PORT) as inbox:
        platform = Platform(lab_paths, Researcher(lab_paths, "alice"), inbox)
        for name in ("alice", "bob"):
            user = Researcher(lab_paths, name)
            Platform.awaiting(f"{name} can log in", lambda user=user: ssh_works(user), 120, lambda: "ssh refuses")
        platform.alice.copy_template()
        yield platform


@pytest.fixture
def platform(built: Platform) -> Platform:
    restore(built.paths)
    built.inbox.messages.clear()
    return built


def training(platform: Platform, nodes: int) -> tuple[int, str]:
    """A job of the template that has a checkpoint; its last node."""
    arguments = f"-N {nodes} train.sbatch --steps 100000 --step-seconds 0.25 --checkpoint-every {EVERY}"
    job = platform.alice.sbatch(arguments, environment=f"RANKS_PER_NODE=1 GRACE_SECONDS={GRACE_SECONDS}")
    eventually(lambda: bool(whole(platform, job)), 120, lambda: f"no checkpoint: {platform.alice.log(job)}")
    return job, platform.nodes_of(job)[-1]


def run_folder(platform: Platform, job: int) -> Path:
    return platform.alice.home() / "runs" / str(job)


def whole(platform: Platform, job: int) -> dict[int, Path]:
    """Checkpoints that say they are whole, by step."""
    found = (run_folder(platform, job) / "checkpoints").glob(f"*/step-*/{MANIFEST}")
    return {int(path.parent.name.split("-")[1]): path.parent for path in found}


def started_again(platform: Platform, job: int) -> None:
    def again() -> bool:
        now = platform.alice.job(job)
        return (now.attempts, now.state) == (2, "RUNNING")

    eventually(again, 120, platform.slurm_view)


def resumed_from(platform: Platform, job: int) -> int:
    """The step that attempt 1 went on from, which must be of a checkpoint whose every byte is right."""
    path = run_folder(platform, job) / "fence" / f"job-{job}-attempt-1.start"
    eventually(path.exists, 120, lambda: platform.alice.log(job))
    step = int(json.loads(path.read_text("utf-8"))["step"])
    assert load(whole(platform, job)[step]).step == step
    log = run_folder(platform, job) / "steps.jsonl"

    def on() -> bool:
        return any(one.attempt == 1 and one.step > step for one in read_steps(log).values())

    eventually(on, 120, lambda: platform.alice.log(job))  # read_steps: the same step gave the same result
    return step


def test_the_common_disk_is_full_at_the_strike(platform: Platform, disk: CommonDisk) -> None:
    job, node = training(platform, 2)
    with disk.full():
        before = max(whole(platform, job))
        platform.inject(node)
        name = platform.incident(node).metadata.name
        started_again(platform, job)
        lasts(10)
    step = resumed_from(platform, job)
    assert step == before
    settled(platform, job, node, name, step)
    assert f"step {step}" in sparewheel(platform.paths, "why", str(job))


def test_there_is_space_again_within_the_grace(platform: Platform, disk: CommonDisk) -> None:
    job, node = training(platform, 2)
    with disk.full():
        before = max(whole(platform, job))
        platform.inject(node)
        name = platform.incident(node).metadata.name
        lasts(10)
    step = resumed_from(platform, job)
    assert step > before, "the last save was not tried again"
    settled(platform, job, node, name, step)


def test_slurmctld_is_killed_while_its_disk_is_full(platform: Platform, disk: CommonDisk) -> None:
    job, node = training(platform, 2)
    with disk.full():
        platform.inject(node)
        name = platform.incident(node).metadata.name
        platform.await_record(name, "fenced", lambda r: any(s.name is NodeStage.DRAINED for s in r.status.stages))
        assert kill_processes(platform, "sys-1", b"slurmctld ")
        lasts(15)
    settled(platform, job, node, name, resumed_from(platform, job))
    assert str(job) in slurm(platform.paths, "squeue -ah -o %A")


def test_one_users_space_is_used_up(platform: Platform, disk: CommonDisk) -> None:
    bob = replace(platform, alice=Researcher(platform.paths, "bob"))
    others = bob.submit(1, "", SAVE_SECONDS=1)
    bob.await_event(others, "first_step", 0, 90)
    job, node = training(platform, 1)
    with disk.full_for_users():
        before = max(whole(platform, job))
        platform.inject(node, bite="silent")
        name = platform.incident(node).metadata.name
        started_again(platform, job)
        saved = [path.read_bytes() for path in (bob.alice.home() / "runs" / str(others)).glob("saved-*")]
        lasts(8)
        assert [p.read_bytes() for p in (bob.alice.home() / "runs" / str(others)).glob("saved-*")] != saved
    step = resumed_from(platform, job)
    assert step == before
    settled(platform, job, node, name, step)
    assert bob.alice.job(others).state == "RUNNING"
    assert {event["attempt"] for event in bob.events(others)} == {0}


def test_the_agent_cannot_write_on_its_host(platform: Platform) -> None:
    job, (_, node) = platform.running(SAVE_SECONDS=2)
    (agent,) = processes(platform, node, b"-m sparewheel.agent ")
    full = f"mount -t tmpfs -o nr_inodes=1 full {NODE_STATE_FOLDER} && ! touch {NODE_STATE_FOLDER}/x"
    run(["nsenter", f"--target={agent}", "--mount", "sh", "-c", full])
    platform.inject(node)
    gone_on(platform, job, node, platform.incident(node).metadata.name)


def test_a_hosts_disk_is_full_for_its_kubelet(platform: Platform) -> None:
    """Nobody asked for it: the kubelet ends what runs there. With a rule of the stack's the host is replaced."""
    job, (_, node) = platform.running(SAVE_SECONDS=2)
    rule = {"type": "DiskPressure", "status": "True", "action": "replace"}
    patch = json.dumps({"spec": {"nodeConditions": [rule]}})
    what = ("-n", NAMESPACE, "patch", "remediationpolicies.sparewheel.dev", POLICY_NAME, "--type=merge", "-p")
    kubectl(platform.paths, *what, patch)
    try:
        pressed = 's/"memory.available"/"nodefs.available": "99%", &/'
        ssh(platform.paths, node, f"sed -i '{pressed}' /etc/kubernetes/kubelet.json")
        assert kill_processes(platform, node, b"/kubelet ")
        name = platform.incident(node, 120).metadata.name
        gone_on(platform, job, node, name)
    finally:
        kubectl(platform.paths, *what, json.dumps({"spec": {"nodeConditions": []}}))
