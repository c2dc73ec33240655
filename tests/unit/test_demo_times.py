"""From which moment the demo counts, and what it takes off: the kernel's line, the job's own save, its own load."""

from __future__ import annotations

import os
import time
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

import lab.demo.__main__ as demo
from lab.demo.facts import Facts, JobFacts
from lab.demo.launchers import launched_at
from lab.demo.timeline import document, handed_over_seconds, platform_seconds, resumed_seconds, stage_bars
from sparewheel.api.remediation import JobRecord, NodeStage
from sparewheel.cli.timeline import rows
from tests.support.incidents import remediation, stage


def process(proc: Path, pid: int, words: list[str], environment: dict[str, str], age_seconds: float = 0.0) -> None:
    """A process that began so long ago."""
    entry = proc / str(pid)
    entry.mkdir(parents=True)
    ticks = int((time.clock_gettime(time.CLOCK_BOOTTIME) - age_seconds) * os.sysconf("SC_CLK_TCK"))
    (entry / "cmdline").write_bytes("\0".join([*words, ""]).encode())
    (entry / "environ").write_bytes("\0".join(f"{name}={value}" for name, value in environment.items()).encode())
    (entry / "stat").write_text(f"{pid} (a ) b) S {' '.join(['0'] * 18)} {ticks} 0 0\n")


def test_the_last_launcher_of_the_attempt_counts(tmp_path: Path) -> None:
    launch, again = ["python3", "launch.py", "train.py"], {"SLURM_JOB_ID": "7", "SLURM_RESTART_COUNT": "1"}
    process(tmp_path, 10, launch, {"SLURM_JOB_ID": "7"}, 40.0)
    process(tmp_path, 11, launch, again, 9.0)
    process(tmp_path, 12, launch, again, 6.0)
    process(tmp_path, 13, ["python3", "-u", "train.py", "launch.py"], again, 2.0)
    process(tmp_path, 14, launch, {**again, "SLURM_JOB_ID": "8"}, 1.0)
    (tmp_path / "15").mkdir()  # it ended while we looked
    now = datetime.now(UTC)
    for attempt, age in ((0, 40.0), (1, 6.0)):
        found = launched_at(tmp_path, 7, attempt)
        assert found is not None
        assert (now - found).total_seconds() == pytest.approx(age, abs=1.0)
    assert launched_at(tmp_path, 7, 2) is None


def story(*, seen: bool = True) -> Facts:
    """Struck a second after the fault, saved in two, launched two seconds later; a load of 8 s, then of 9."""
    record = remediation()
    fault = record.spec.fault.first_seen

    def at(seconds: float) -> datetime:
        return fault + timedelta(seconds=seconds)

    job = JobRecord(job_id=7, user="alice", attempt_after=1, stopping_at=at(1), resumed_at=at(14))
    record.status.jobs = [job]
    record.status.owned.slurm_struck_at = at(1)
    return Facts(
        record=record,
        hosts={},
        bad_node="gpu-2",
        struck=JobFacts(7, 2, at(-30), at(4), "RUNNING"),
        rival=JobFacts(8, 1, None, None, "PENDING"),
        steps=[],
        reference={},
        first_step_of_attempt_0=at(-20),
        messages=[],
        repeats=0,
        launched_at={0: at(-28), 1: at(5)} if seen else {0: None, 1: None},
        saved_at=at(3),
    )


def test_all_is_counted_from_the_kernel_s_line_as_the_command_line_does() -> None:
    facts = story()
    assert resumed_seconds(facts) == 14.0
    assert platform_seconds(facts) == 14.0 - 8.0 - 2.0
    assert handed_over_seconds(facts) == 5.0 - 2.0
    assert document(facts, [])["fault_at"] == facts.record.spec.fault.first_seen.isoformat()
    ended = [
        (row.stage, row.start_seconds, row.end_seconds) for row in rows(facts.record) if row.end_seconds is not None
    ]
    assert [(bar.stage, bar.start_seconds, bar.end_seconds) for bar in stage_bars(facts)] == ended
    assert ended


def test_launchers_that_were_not_seen_take_nothing_off() -> None:
    facts = story(seen=False)
    assert platform_seconds(facts) == 14.0 - 2.0
    assert handed_over_seconds(facts) is None


def test_a_told_story_leaves_a_page_to_look_at(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    drawn: list[Path] = []

    def draw(path: Path, **_: object) -> None:
        drawn.append(path)

    monkeypatch.setattr(demo.picture, "draw", draw)
    told = story()
    told.record.status.stages = [stage(NodeStage.DETECTED, 0, 0.5)]
    demo.report(told, [], tmp_path / "demo")
    assert "<svg" in (tmp_path / "demo/incident.html").read_text()
    assert drawn == [tmp_path / "demo/timeline.png"]
