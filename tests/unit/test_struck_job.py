"""Plain Slurm beside ours: what is plain about it, what is seen of the struck job, and the figures."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from bench.first_step import figures_of as first_step_figures
from bench.plain_slurm import OURS, plain_conf
from bench.struck_job import Marks, Seen, figures_of, marked, ratio, seen_in
from components.slurm_conf import slurm_conf
from lab.demo.summary import Runs
from stacks.slurm import InClusterDatabase, Slurm

CUT = datetime(2026, 11, 30, 12, 0, tzinfo=UTC)
NODE = "NodeName=gpu-1 Arch=x86_64 State={} Reason=Not responding [slurm@2026-11-30T12:05:00] Partitions=gpu"


def after(seconds: float) -> datetime:
    return CUT + timedelta(seconds=seconds)


def test_plain_slurm_has_none_of_our_lines_that_bear_on_a_lost_host() -> None:
    conf = slurm_conf(
        Slurm(
            version="26.05",
            node_checks=True,
            extra_conf=["ProctrackType=proctrack/linuxproc"],
            accounting=InClusterDatabase(kind="in_cluster"),
        )
    )
    ours = [line.partition("=")[0] for line in conf.splitlines()]
    assert all(any(key.startswith(name) for key in ours) for name in OURS), "a line of ours has another name now"
    left = [line.partition("=")[0] for line in plain_conf(conf).splitlines()]
    assert left == ["JobRequeue", "GresTypes", "AccountingStorageTRES", "MinJobAge", "ProctrackType"]
    assert "SlurmdTimeout" not in conf, "then ours would not go by the default either"


@pytest.mark.parametrize(
    ("job", "node", "seen"),
    [
        (
            "JobId=7 JobState=RUNNING Reason=None Restarts=0 StartTime=2026-11-30T11:59:00 NodeList=gpu-[0-1]",
            "ALLOCATED*+DYNAMIC_NORM",
            Seen("RUNNING", 1, after(-60), node_out=False),
        ),
        (
            "JobId=7 JobState=PENDING Reason=BeginTime Restarts=1 StartTime=2026-11-30T12:07:00 NodeList=",
            "DOWN*+DYNAMIC_NORM",
            Seen("PENDING", 2, None, node_out=True),
        ),
    ],
)
def test_what_is_seen_in_slurms_words(job: str, node: str, seen: Seen) -> None:
    assert seen_in(f"{job}\n{NODE.format(node)}\n") == seen


def test_an_answer_without_the_job_says_nothing() -> None:
    assert marked(Marks(CUT), seen_in(""), after(1), None) == Marks(CUT)


def test_marks_are_the_first_look_that_saw_it() -> None:
    marks = Marks(CUT)
    looks = [
        (1, Seen("RUNNING", 1, after(-60), node_out=False), None),
        (300, Seen("RUNNING", 1, after(-60), node_out=True), None),
        (301, Seen("PENDING", 2, None, node_out=True), None),
        (360, Seen("RUNNING", 2, after(359), node_out=True), None),
        (372, Seen("RUNNING", 2, after(359), node_out=True), after(371.5)),
        (373, Seen("RUNNING", 2, after(359), node_out=False), after(372)),
    ]
    for seconds, seen, step in looks:
        marks = marked(marks, seen, after(seconds), step)
    assert marks == Marks(CUT, after(300), after(301), after(359), after(371.5))
    assert figures_of("plain_slurm", marks) == {
        "plain_slurm_first_step_seconds": 371.5,
        "plain_slurm_node_out_seconds": 300.0,
        "plain_slurm_requeue_seconds": 1.0,
        "plain_slurm_wait_seconds": 58.0,
        "plain_slurm_load_seconds": 12.5,
    }


def test_a_job_that_ended_is_marked_until_something_starts_it_again() -> None:
    failed, pending = Seen("FAILED", 1, None, node_out=True), Seen("PENDING", 2, None, node_out=True)
    marks = marked(marked(Marks(CUT), failed, after(5), None), failed, after(9), None)
    assert marks.ended_at == after(5)
    assert marked(marks, pending, after(10), None).ended_at is None


def test_the_ratio_is_of_the_whole_times_and_asks_for_both() -> None:
    assert ratio(Marks(CUT, first_step_at=after(360)), Marks(CUT, first_step_at=after(60))) == 6.0
    with pytest.raises(ValueError, match="no new step"):
        ratio(Marks(CUT, first_step_at=after(360)), Marks(CUT))


def test_the_median_of_several_stories() -> None:
    told = Runs(seconds=[12.0, 20.0, 13.0], platform=[3.0, 5.0, 4.0])
    assert first_step_figures(told, "crash", cold=False) == {
        "first_step_median_seconds": 13.0,
        "first_step_worst_seconds": 20.0,
        "first_step_runs": 3.0,
        "first_step_platform_median_seconds": 4.0,
        "first_step_platform_worst_seconds": 5.0,
    }
    assert "cold_hang_first_step_median_seconds" in first_step_figures(told, "hang", cold=True)
    assert first_step_figures(Runs(), "crash", cold=False) == {}
