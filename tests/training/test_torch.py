"""The training template with real PyTorch on two nodes: what it loses, and that it comes out equal, at any fault."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

from tests.training.torch_nodes import Node, nodes, torch_layers, until
from training.resumable.progress import Step, read_steps

pytestmark = pytest.mark.timeout(300)
"""PyTorch takes seconds to start, times the ranks."""

STEPS = 60
PACE = ("--steps", str(STEPS), "--step-seconds", "0.1", "--checkpoint-every", "25")
FAST = ("--steps", str(STEPS), "--checkpoint-every", "25")
STARTED_SECONDS = 90
ENDED_SECONDS = 90

Steps = dict[int, Step]


class Job:
    """A job of two ranks over some of the nodes; `requeue` is its next attempt."""

    def __init__(self, made: Sequence[Node], number: int = 7) -> None:
        self.nodes = made
        self.number = number
        self.attempt = 0
        self.used: list[Node] = []
        self.folder = made[0].shared / "home" / "runs" / str(number)

    def start(
        self, used: Sequence[Node], options: Sequence[str] = PACE, ranks: int = 1, launch: Sequence[str] = ()
    ) -> None:
        self.used = list(used)
        for node in used:
            node.start(self.number, self.attempt, [each.name for each in used], options, ranks, launch)

    def requeue(self, used: Sequence[Node], options: Sequence[str] = FAST, ranks: int = 1) -> str:
        """Run the next attempt to its end; its log."""
        self.attempt += 1
        self.start(used, options, ranks)
        assert self.ended(used) == [0] * len(used), self.log()
        return self.log()

    def ended(self, used: Sequence[Node] | None = None) -> list[int]:
        """The exit codes of its launchers, once all have ended."""
        launchers = [node.launcher for node in (self.used if used is None else used)]
        until(lambda: all(launcher.poll() is not None for launcher in launchers), ENDED_SECONDS, self.log)
        return [launcher.returncode for launcher in launchers]

    def log(self) -> str:
        return "".join(node.log(self.number, self.attempt).read_text() for node in self.used)

    def steps(self) -> Steps:
        path = self.folder / "steps.jsonl"
        return read_steps(path) if path.exists() else {}

    def reach(self, step: int) -> None:
        until(lambda: self.steps().get(step), STARTED_SECONDS, self.log)

    def last_step(self) -> int:
        return max(self.steps())

    def resumed_from(self) -> int:
        """By the line that the researcher sees."""
        (line,) = [
            line for line in self.log().splitlines() if line.startswith(f"attempt {self.attempt}: resumed from step ")
        ]
        return int(line.split()[5])


@pytest.fixture(scope="module")
def layers() -> Sequence[Path]:
    found = torch_layers()
    if found is None:
        pytest.skip("the workers' image isn't built: `make setup` does it")
    return found


@pytest.fixture
def job(layers: Sequence[Path], tmp_path: Path) -> Iterator[Job]:
    with nodes(layers, tmp_path, 3) as made:
        yield Job(made)


@pytest.fixture(scope="module")
def unbroken(layers: Sequence[Path], tmp_path_factory: pytest.TempPathFactory) -> Steps:
    """The steps of a run that nothing happened to, its two ranks on one node."""
    with nodes(layers, tmp_path_factory.mktemp("unbroken"), 1) as made:
        job = Job(made)
        job.start(made, FAST, ranks=2)
        assert job.ended() == [0], job.log()
        return job.steps()


def results(steps: Steps) -> list[tuple[int, float, str, str]]:
    return [(number, step.loss, step.samples, step.history) for number, step in sorted(steps.items())]


def assert_equal_to(unbroken: Steps, job: Job) -> None:
    """Every loss and every sample, to the last bit (`read_steps` has compared what ran twice)."""
    assert results(job.steps()) == results(unbroken)
    assert sorted(unbroken) == list(range(1, STEPS + 1))


@pytest.mark.slow
def test_saves_longer_than_torchruns_patience_are_kept(layers: Sequence[Path], tmp_path: Path, unbroken: Steps) -> None:
    """torchrun alone kills its ranks 30 s after SIGTERM. Two jobs side by side, as most of it is waiting.

    One is stopped as a whole. Of the other, rank 0 dies first, and takes torchrun's own store with it.
    """
    seconds = float(os.environ.get("SPAREWHEEL_TEST_SAVE_SECONDS", "36"))
    with nodes(layers, tmp_path, 5) as made:
        stopped, bereft = Job(made, 7), Job(made, 8)
        for job, used in ((stopped, made[:2]), (bereft, made[2:4])):
            job.start(used, (*PACE, "--checkpoint-every", "1000", "--save-seconds", str(seconds)))
        for job in (stopped, bereft):
            job.reach(10)
        os.kill(bereft.used[0].ranks()[0], signal.SIGKILL)
        until(lambda: "saving step" in bereft.log(), 10, bereft.log)
        began = time.monotonic()
        for node in stopped.used:
            node.terminate(everything=False)
        for node in bereft.used:
            node.terminate()
        until(lambda: all(node.launcher.poll() is not None for node in made[:4]), seconds + 30, bereft.log)
        assert time.monotonic() - began >= seconds - 5
        last = stopped.last_step()
        assert f"SIGTERM, saving step {last} on all 2 ranks" in stopped.log()
        assert stopped.log().count(f"step {last} saved in") == 2
        done = bereft.last_step()

        assert f"first new step {last + 1}" in stopped.requeue([made[4], made[0]])
        assert stopped.resumed_from() == last
        assert_equal_to(unbroken, stopped)
        bereft.requeue([made[3], made[4]])
        assert done - 1 <= bereft.resumed_from() <= done + 1
        assert_equal_to(unbroken, bereft)


def test_when_a_rank_dies_a_survivor_saves_and_its_node_is_kept(job: Job, unbroken: Steps) -> None:
    job.start(job.nodes[:2])
    job.reach(10)
    survivor, struck = job.used
    os.kill(struck.ranks()[0], signal.SIGKILL)
    until(lambda: "keeping the node" in survivor.log(7, 0).read_text(), 30, job.log)
    assert [node.launcher.poll() for node in job.used] == [None, None]
    last = job.last_step()
    for node in job.used:
        node.terminate()
    assert all(job.ended())
    job.requeue([survivor, job.nodes[2]])
    assert last - 1 <= job.resumed_from() <= last + 1
    assert_equal_to(unbroken, job)


def test_when_a_node_vanishes_sigterm_still_reaches_the_ranks(job: Job, unbroken: Steps) -> None:
    """No connection is closed, so torchrun's agent and the rank both wait; Slurm tells the launcher alone (cgroups)."""
    job.start(job.nodes[:2])
    job.reach(10)
    gone, survivor = job.used
    gone.unplug()
    time.sleep(2)
    last = job.last_step()
    survivor.terminate(everything=False)
    until(lambda: survivor.launcher.poll() is not None, 25, job.log)
    assert "saving step" in survivor.log(7, 0).read_text()
    gone.kill()
    job.requeue([survivor, job.nodes[2]])
    assert last - 1 <= job.resumed_from() <= last + 1
    assert_equal_to(unbroken, job)


def test_a_rank_that_hangs_is_saved_around_and_refused_when_it_wakes_up(job: Job, unbroken: Steps) -> None:
    job.start(job.nodes[:2])
    job.reach(10)
    struck, survivor = job.used
    hung = struck.ranks()[0]
    os.kill(hung, signal.SIGSTOP)
    for node in job.used:
        node.terminate()
    assert job.ended([survivor]) != [0]
    last = job.last_step()
    assert "the other ranks don't answer; saving step" in survivor.log(7, 0).read_text()
    job.attempt += 1
    job.start([survivor, job.nodes[2]], PACE)
    job.reach(last + 3)
    os.kill(hung, signal.SIGCONT)  # SIGTERM is waiting for it: it tries to save
    until(lambda: struck.launcher.poll() is not None, 40, job.log)
    assert "may not write" in struck.log(7, 0).read_text() or "no new step" in struck.log(7, 0).read_text()
    assert job.ended() == [0, 0], job.log()
    assert job.resumed_from() >= last - 1
    assert_equal_to(unbroken, job)


def test_without_any_last_save_the_periodic_checkpoint_counts(job: Job, unbroken: Steps) -> None:
    job.start(job.nodes[:1], ranks=2)
    job.reach(28)
    job.used[0].kill()
    job.requeue(job.nodes[1:2], ranks=2)
    assert job.resumed_from() == 25
    assert_equal_to(unbroken, job)


def test_neighbours_of_a_dead_rank_save_too(job: Job) -> None:
    job.start(job.nodes[:1], (*PACE, "--save-seconds", "4"), ranks=2)
    job.reach(10)
    os.kill(job.used[0].ranks()[0], signal.SIGKILL)
    until(lambda: "keeping the node" in job.log(), 60, job.log)
    job.used[0].terminate()
    last = job.last_step()
    job.requeue([job.nodes[2]], (*FAST,))
    assert last - 1 <= job.resumed_from() <= last + 1
    assert sorted(job.steps()) == list(range(1, STEPS + 1))


def test_an_error_of_the_script_ends_the_job_at_once(job: Job) -> None:
    began = time.monotonic()
    job.start(job.nodes[:2], ("--batch-size", "3"), launch=("--linger-seconds", "600"))
    assert job.ended() == [1, 1]
    assert "2 ranks can't share a global batch of 3" in job.log()
    assert time.monotonic() - began < ENDED_SECONDS
