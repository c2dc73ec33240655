"""The one waiting loop, on a clock of its own; and what a reset of the data centre means with a platform on it."""

from __future__ import annotations

import math
import os
import re
import signal
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest
from typer.testing import CliRunner

from lab import __main__ as lab_main
from lab import restore as restoring
from lab.cluster.lifecycle import DataCentre
from lab.machines.cgroups import HostGroups
from lab.machines.inventory import save_inventory
from lab.paths import Paths
from lab.waiting import wait_for


class Clock:
    def __init__(self) -> None:
        self.now = 0.0

    def read(self) -> float:
        return self.now

    def sleep(self, seconds: float) -> None:
        self.now += seconds


def wait(look: Callable[[], object], otherwise: Callable[[], str] = lambda: "nothing came") -> tuple[object, float]:
    clock = Clock()
    answer = wait_for(look, 10, otherwise, LookupError, look_seconds=1, clock=clock.read, sleep=clock.sleep)
    return answer, clock.now


def test_the_first_answer_is_given_at_once() -> None:
    assert wait(lambda: "here") == ("here", 0)


@pytest.mark.parametrize("answer", [0, "", []], ids=["zero", "empty text", "empty list"])
def test_an_empty_answer_is_an_answer(answer: object) -> None:
    assert wait(lambda: answer) == (answer, 0)


@pytest.mark.parametrize("nothing", [None, False])
def test_nothing_is_looked_for_again(nothing: object) -> None:
    answers = iter([nothing, nothing, True])
    assert wait(lambda: next(answers)) == (True, 2)


def test_the_error_is_the_callers_and_says_how_far_things_came() -> None:
    looks: list[int] = []

    def look() -> bool:
        looks.append(1)
        return False

    with pytest.raises(LookupError, match=r"looked 12 times \(waited 10 s\)"):
        wait(look, lambda: f"looked {len(looks)} times")


def test_who_waits_is_told_why_every_fifteen_seconds() -> None:
    clock, told = Clock(), list[tuple[float, str]]()
    with pytest.raises(LookupError):
        wait_for(
            lambda: None,
            40,
            lambda: f"nothing by {clock.now:g}",
            LookupError,
            tell=lambda why: told.append((clock.now, why)),
            look_seconds=1,
            clock=clock.read,
            sleep=clock.sleep,
        )
    assert told == [(15, "nothing by 15"), (30, "nothing by 30")]


HUNG = "12|alice|COMPLETING|gpu-[0-1]\n13|bob|PENDING|\n"


class Queue:
    """Slurm's queue, in which jobs are until they are killed, or for so many seconds."""

    def __init__(self, clock: Clock, text: str, seconds: float = math.inf) -> None:
        self.clock, self.text, self.end = clock, text, seconds
        self.killed: list[tuple[float, set[int]]] = []

    def slurm(self, _paths: Paths, _command: str) -> str:
        return self.text if self.clock.now < self.end else ""

    def kill(self, _paths: Paths, jobs: set[int]) -> list[str]:
        self.killed.append((self.clock.now, jobs))
        self.end = 0.0
        return ["4711 python3 on gpu-1"]


@pytest.mark.parametrize(
    ("text", "ends", "killed", "waited"),
    [("", 0.0, [], 0.0), (HUNG, 3.0, [], 3.0), (HUNG, math.inf, [(10.0, {12, 13})], 10.5)],
    ids=["no job", "ends by itself", "hangs"],
)
def test_a_job_that_does_not_end_is_killed_after_ten_seconds(
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
    text: str,
    ends: float,
    killed: list[tuple[float, set[int]]],
    waited: float,
) -> None:
    clock = Clock()
    queue = Queue(clock, text, ends)
    monkeypatch.setattr(restoring, "slurm", queue.slurm)
    monkeypatch.setattr(restoring, "kill_processes", queue.kill)
    paths = Paths(tmp_path, tmp_path, tmp_path)
    restoring.cancel_jobs(paths, clock=clock.read, sleep=clock.sleep)
    assert (queue.killed, clock.now) == (killed, waited)


def test_a_job_that_nothing_ends_is_named(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    def kill(_paths: Paths, _jobs: set[int]) -> list[str]:
        return []

    clock = Clock()
    monkeypatch.setattr(restoring, "slurm", Queue(clock, HUNG).slurm)
    monkeypatch.setattr(restoring, "kill_processes", kill)
    names = "job 12 of alice is COMPLETING on gpu-[0-1], job 13 of bob is PENDING"
    with pytest.raises(restoring.NotHealthyError, match=re.escape(names)):
        restoring.cancel_jobs(Paths(tmp_path, tmp_path, tmp_path), clock=clock.read, sleep=clock.sleep)
    said = capsys.readouterr().err
    assert f"not yet: not gone after scancel: {names}" in said
    assert "no process is left" in said


def test_only_processes_of_these_jobs_are_killed_and_no_epilog(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    def started(**environment: str) -> subprocess.Popen[bytes]:
        return subprocess.Popen(["sleep", "60"], env={**os.environ, **environment})

    paths = Paths(tmp_path, tmp_path, tmp_path)
    save_inventory(paths.state, 3)
    stopped, other, none = started(SLURM_JOB_ID="12"), started(SLURM_JOB_ID="120"), started()
    epilog = started(SLURM_JOB_ID="12", SLURM_SCRIPT_CONTEXT="epilog_slurmd")
    everybody = [stopped, other, none, epilog]

    def processes(_: object, host: str) -> list[int]:
        return [one.pid for one in everybody] if host == "gpu-2" else []

    monkeypatch.setattr(HostGroups, "processes", processes)
    try:
        for one in everybody:
            wait_for(lambda one=one: _runs_sleep(one.pid), 10, lambda: "not started", LookupError)
        stopped.send_signal(signal.SIGSTOP)
        assert restoring.kill_processes(paths, {12}) == [f"{stopped.pid} sleep on gpu-2"]
        assert stopped.wait(10) == -signal.SIGKILL
        assert [one.poll() for one in (other, none, epilog)] == [None, None, None]
    finally:
        for one in everybody:
            one.kill()
            one.wait()


def _runs_sleep(pid: int) -> bool:
    return Path(f"/proc/{pid}/comm").read_text() == "sleep\n"


@pytest.mark.parametrize(("up", "done"), [(True, ["up", "restore"]), (False, ["up", "reset"])])
def test_a_reset_restores_the_platform_where_one_is_up(
    monkeypatch: pytest.MonkeyPatch, up: bool, done: list[str]
) -> None:
    calls: list[str] = []

    def call(name: str) -> Callable[[object], None]:
        def called(_: object) -> None:
            calls.append(name)

        return called

    def is_up(_: object) -> bool:
        return up

    monkeypatch.setattr(DataCentre, "up", call("up"))
    monkeypatch.setattr(DataCentre, "reset", call("reset"))
    monkeypatch.setattr(lab_main, "restore", call("restore"))
    monkeypatch.setattr(lab_main, "stack_is_up", is_up)
    assert CliRunner().invoke(lab_main.app, ["reset"]).exit_code == 0
    assert calls == done
