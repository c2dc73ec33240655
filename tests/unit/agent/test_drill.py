"""A drill: the record is read by the agent as a drill, and the right processes are bitten."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from sparewheel.agent import drill
from sparewheel.faults.kmsg import parse_record
from sparewheel.faults.lines import DRILL_PREFIX, LineReader


def process(proc: Path, pid: int, **environment: str) -> None:
    (proc / str(pid)).mkdir(parents=True)
    text = "\0".join(f"{key}={value}" for key, value in environment.items())
    (proc / str(pid) / "environ").write_text(text)


def test_records_are_numbered_after_the_last_one(tmp_path: Path) -> None:
    log = tmp_path / "kmsg"
    log.write_text("6,41,1,-;boot\ngarbage\n")
    drill.write_record(log, drill.text_of(79, "0000:13:00"), 5)
    drill.write_record(log, drill.text_of(31, "0000:13:00"), 6)
    records = [parse_record(line) for line in log.read_text().splitlines()[2:]]
    assert [record.sequence for record in records] == [42, 43]
    assert not any(record.from_kernel for record in records)
    finding = LineReader().read(records[0].text.removeprefix(DRILL_PREFIX))
    assert finding is not None
    assert (finding.code, finding.device) == ("XID 79", "0000:13:00")


def test_the_rank_of_the_gpu_is_the_victim(tmp_path: Path) -> None:
    process(tmp_path, 10, SLURM_JOB_ID="1", SLURM_PROCID="0")
    process(tmp_path, 11, SLURM_JOB_ID="1", SLURM_STEP_ID="0")
    for rank in range(2):
        process(tmp_path, 20 + rank, SLURM_STEP_ID="0", LOCAL_RANK=str(rank), LOCAL_WORLD_SIZE="2")
    process(tmp_path, 30, HOME="/root")
    assert drill.victims(tmp_path, 3) == [21]


def test_without_ranks_every_task_is(tmp_path: Path) -> None:
    process(tmp_path, 10, SLURM_JOB_ID="1", SLURM_PROCID="0")
    process(tmp_path, 11, SLURM_JOB_ID="1", SLURM_STEP_ID="0")
    process(tmp_path, 12, SLURM_JOB_ID="1", SLURM_STEP_ID="0")
    assert sorted(drill.victims(tmp_path, 3)) == [11, 12]


def test_a_drill_says_how_many_it_bit(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    arguments = ["--xid", "79", "--host-root", str(tmp_path), "--kernel-log", "/kmsg", "--bite"]
    with subprocess.Popen(["sleep", "60"]) as victim:
        process(tmp_path / "proc", victim.pid, SLURM_STEP_ID="0")
        assert drill.main([*arguments, "silent"]) == 0
        assert drill.main([*arguments, "crash"]) == 0
        assert victim.wait(10) == -signal.SIGKILL
    said = capsys.readouterr().out.splitlines()
    assert [line.partition(", ")[2] for line in said] == ["0 processes bitten (silent)", "1 process bitten (crash)"]


def stopped_within(pid: int, seconds: float) -> bool:
    """Whether it was seen stopped; SIGCONT makes it run before `kill` returns, so each look is of a new stop."""
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        if Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "T":
            return True
        time.sleep(0.01)
    return False


def test_a_hung_process_stays_stopped_through_slurms_continue() -> None:
    """SIGTERM and SIGCONT, as Slurm sends them, end a process that is stopped once, not one that is kept stopped."""
    program = (
        "import signal, time\nsignal.signal(signal.SIGTERM, lambda *_: None)\nprint(1, flush=True)\ntime.sleep(60)"
    )
    process = subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE)
    assert process.stdout is not None
    process.stdout.readline()
    try:
        drill.keep_stopped([process.pid], seconds=60.0)
        assert stopped_within(process.pid, 30.0)
        for _ in range(3):
            os.kill(process.pid, signal.SIGTERM)
            os.kill(process.pid, signal.SIGCONT)
            assert stopped_within(process.pid, 30.0)
    finally:
        process.kill()
        process.wait()
        process.stdout.close()
