"""What the agent marks on the host, and what the script that Slurm runs makes of it."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from components.node_checks import SCRIPT
from sparewheel.agent.node_state import NodeStateFile, node_state_line
from sparewheel.agent.report import Seen
from sparewheel.api.enums import Action, FaultSource, Severity
from sparewheel.faults.classify import OpenFault
from tests.support.agent_host import START, XID_79, Host


def seen(action: Action | None = None, gpus: int | None = 8) -> Seen:
    faults: list[OpenFault] = []
    if action is not None:
        faults = [
            OpenFault(
                code="XID 48",
                device="0000:17:00",
                action=action,
                severity=Severity.WARNING,
                source=FaultSource.KERNEL_LOG,
                first_seen=START,
                last_seen=START,
                message="double-bit\nECC",
            )
        ]
    return Seen(boot_id="b", expected_gpus=8, seen_gpus=gpus, faults=faults, message="NVML hangs")


@pytest.mark.parametrize(
    ("state", "words"),
    [
        (seen(), "ok "),
        (seen(Action.RECORD), "ok "),
        (seen(Action.RESTART_JOB), "ok "),
        (seen(Action.RESET_GPU), "fault XID 48 on 0000:17:00: double-bit ECC"),
        (seen(Action.REPLACE, gpus=None), "fault "),
        (seen(gpus=None), "unknown NVML hangs"),
        (seen(gpus=7), "degraded 7 of 8 GPUs are seen"),
    ],
)
def test_the_line(state: Seen, words: str) -> None:
    line = node_state_line(state, dry_run=False)
    assert line.startswith(words)
    assert line.count("\n") == 1
    assert line.endswith("\n")


def test_in_a_dry_run_nothing_is_a_fault() -> None:
    assert node_state_line(seen(Action.REPLACE), dry_run=True).startswith("dry-run XID 48")


def check(marker: Path, *, phase: str = "") -> tuple[int, str]:
    environment = {"SLURM_SCRIPT_CONTEXT": phase} if phase else {}
    done = subprocess.run(["/bin/sh", SCRIPT, marker], env=environment, capture_output=True, text=True, check=False)
    assert done.stderr == ""
    return done.returncode, done.stdout.strip()


@pytest.mark.parametrize(
    ("text", "around_a_job", "health_check"),
    [
        ("ok 8 of 8 GPUs are seen\n", 0, 0),
        ("fault XID 79 on 0000:17:00: it's gone $(exit 3) `exit 4`\n", 1, 1),
        ("fault XID 79", 1, 1),
        ("unknown NVML hangs\n", 0, 1),
        ("degraded 7 of 8 GPUs are seen\n", 0, 1),
        ("dry-run XID 79 on 0000:17:00\n", 0, 1),
        ("", 0, 1),
        (None, 0, 1),
    ],
)
def test_the_script(tmp_path: Path, text: str | None, around_a_job: int, health_check: int) -> None:
    marker = tmp_path / "node-state"
    if text is not None:
        marker.write_text(text)
    for phase in ("prolog_slurmd", "epilog_slurmd"):
        assert check(marker, phase=phase)[0] == around_a_job
    code, words = check(marker)
    assert code == health_check
    assert words.startswith("sparewheel: ") == (code == 1)


def test_the_script_says_which_fault(tmp_path: Path) -> None:
    marker = tmp_path / "node-state"
    NodeStateFile(marker, dry_run=False).write(seen(Action.REPLACE))
    assert check(marker, phase="epilog_slurmd") == (1, "sparewheel: XID 48 on 0000:17:00: double-bit ECC")


def test_the_script_is_quick(tmp_path: Path) -> None:
    marker = tmp_path / "node-state"
    marker.write_text("fault XID 79\n")
    before = os.times()
    for _ in range(20):
        check(marker, phase="epilog_slurmd")
    after = os.times()
    used = after.children_user + after.children_system - before.children_user - before.children_system
    assert used / 20 < 0.05, "seconds of CPU: the wall's depend on who else runs here"


def test_a_fault_is_marked_before_the_api_server_answers(host: Host) -> None:
    """A job that died of it ends within the second: its Epilog must see the mark, whatever the network does."""
    host.turn()
    host.api.down = True
    host.write(XID_79)
    host.turn(0.1)
    assert (host.root / "run/node-state").read_text().startswith("fault XID 79 on 0000:17:00")


def test_the_mark_comes_back_within_a_heartbeat(host: Host) -> None:
    host.turn()
    mark = host.root / "run/node-state"
    mark.unlink()
    host.turn(5)
    assert mark.read_text().startswith("ok ")


@pytest.mark.skipif(os.geteuid() != 0, reason="what root may write says nothing otherwise")
def test_a_mark_that_cannot_be_written_stops_no_report(host: Host, caplog: pytest.LogCaptureFixture) -> None:
    (host.root / "run").touch()
    host.turn()
    assert host.api.status.gpus.seen == 8
    assert "cannot be written" in caplog.text


@pytest.fixture
def host(tmp_path: Path) -> Host:
    return Host(tmp_path)
