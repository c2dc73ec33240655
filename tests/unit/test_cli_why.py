"""``sparewheel why JOBID`` for people and for scripts, and the one name that a reason has on the command line."""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable

import pytest
from typer.testing import CliRunner

from sparewheel.api.names import CONTROLLER_APP_NAME, LABEL_APP_NAME, NAMESPACE
from sparewheel.api.remediation import JobRecord
from sparewheel.cli.app import every_command
from sparewheel.cli.commands import reports
from sparewheel.cli.commands.plan import MODULE
from sparewheel.kube.memory import MemoryKube
from sparewheel.kube.port import POD, REMEDIATION, Kube
from sparewheel.remediation.controller import job_look
from sparewheel.remediation.decide.untouched import untouched_words
from sparewheel.slurm.memory import MemorySlurm
from sparewheel.slurm.memory_objects import MemoryJob
from tests.support.incidents import remediation

PLAIN = {"COLUMNS": "200", "NO_COLOR": "1", "TERM": "dumb"}


@pytest.fixture
def kube(monkeypatch: pytest.MonkeyPatch) -> MemoryKube:
    """A cluster with one incident that struck job 42."""
    memory = MemoryKube()
    record = remediation()
    record.status.jobs = [JobRecord(job_id=42, user="alice", message="Your job 42 goes on from step 7.")]
    memory.put(REMEDIATION, record.to_wire(), NAMESPACE)

    def run(command: Callable[[Kube], Awaitable[None]]) -> None:
        import asyncio

        asyncio.run(_done(command(memory)))

    monkeypatch.setattr(reports, "run", run)
    return memory


async def _done(work: Awaitable[None]) -> None:
    await work


def test_for_scripts_the_job_as_it_is_recorded(kube: MemoryKube) -> None:
    done = CliRunner().invoke(every_command(), ["why", "42", "--output", "json"])
    assert done.exit_code == 0, done.output
    (found,) = json.loads(done.output)
    assert (found["remediation"], found["fault"]) == ("gpu-7-xid-79-0", "XID 79")
    assert found["sentence"] == "Your job 42 goes on from step 7."
    assert (found["job"]["jobId"], found["job"]["user"]) == (42, "alice")


def test_a_job_that_nothing_touched_is_an_empty_list(kube: MemoryKube) -> None:
    done = CliRunner().invoke(every_command(), ["why", "41", "-o", "json"])
    assert json.loads(done.output) == []
    assert "No incident of the platform touched job 41" in CliRunner().invoke(every_command(), ["why", "41"]).output


def test_a_job_that_slurm_requeued_did_not_just_end_by_itself(
    kube: MemoryKube, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Slurm is asked where the controller runs."""
    pod = {"metadata": {"name": "c-0", "labels": {LABEL_APP_NAME: CONTROLLER_APP_NAME}}, "status": {"phase": "Running"}}
    kube.put(POD, {**pod, "spec": {"containers": [{"args": ["-m", MODULE, "--url", "http://s"]}]}}, NAMESPACE)
    asked: list[tuple[str, ...]] = []

    async def in_pod(_: Kube, pod_name: str, command: list[str], __: str) -> str:
        asked.append((pod_name, *command))
        return json.dumps({"restarts": 2, "states": ["COMPLETED"]})

    monkeypatch.setattr(reports, "in_pod", in_pod)
    said = CliRunner().invoke(every_command(), ["why", "41"]).output
    assert "but Slurm requeued it 2 times" in said
    assert "sacct -D -j 41" in said
    assert asked == [("c-0", "python", "-m", f"{MODULE}.job_look", "41", "--url", "http://s")]


@pytest.mark.parametrize(
    ("restarts", "states", "says"),
    [
        (1, {"RUNNING"}, "but Slurm requeued it once"),
        (0, {"OUT_OF_MEMORY"}, "but Slurm ended it as OUT_OF_MEMORY"),
        (1, {"NODE_FAIL"}, "or somebody requeued it) and ended it as NODE_FAIL"),
        (0, {"FAILED"}, "it ended by itself"),
        (None, set[str](), "is not known here (no controller runs)"),
    ],
)
def test_what_is_said_of_a_job_in_no_record(restarts: int | None, states: set[str], says: str) -> None:
    text = untouched_words(7, restarts, states, "no controller runs")
    assert says in text
    assert "`sacct -D -j 7 " in text
    assert ("by itself" in text) == (says == "it ended by itself")


def test_a_job_that_slurm_holds_for_its_own_end_says_how_and_what_to_do() -> None:
    text = untouched_words(7, 2, {"PENDING", "REQUEUE_HOLD"}, own_end="exit code 3")
    assert "Attempt 1 ended by itself with exit code 3; Slurm requeued the job and holds it" in text
    assert "Fix what it runs and `scontrol release 7`" in text
    assert "somebody requeued it" not in text


def test_a_job_that_slurm_holds_for_another_reason_says_which() -> None:
    text = untouched_words(7, 5, {"PENDING"}, held="JobHoldMaxRequeue")
    assert "requeued it 5 times" in text
    assert "and holds it (JobHoldMaxRequeue; `scontrol release 7` lets it start)" in text


@pytest.mark.parametrize("exit_code", [0, 3])
async def test_a_hold_is_the_jobs_own_end_where_that_was_non_zero(exit_code: int) -> None:
    slurm = MemorySlurm()
    slurm.submit(MemoryJob(7, restart_count=1, held=True, requeue_held=True, state_reason="JobHeldUser"))
    slurm.job_table[7].exit_code = exit_code
    found = await job_look.look(slurm, 7)
    assert (found["ownEnd"], found["held"]) == ("exit code 3" if exit_code else "", "JobHeldUser")


async def test_slurm_is_asked_about_the_one_job() -> None:
    slurm = MemorySlurm()
    slurm.submit(MemoryJob(7, restart_count=3))
    assert (await job_look.look(slurm, 7))["restarts"] == 3
    assert await job_look.look(slurm, 8) == {}


def test_a_reason_has_one_name_everywhere() -> None:
    for command in (["breaker", "close"], ["cancel"], ["host", "release"]):
        shown = CliRunner().invoke(every_command(), [*command, "--help"], env=PLAIN)
        assert "--reason" in shown.output, command
        assert "--why" not in shown.output, command


def test_an_empty_reason_closes_nothing() -> None:
    done = CliRunner().invoke(every_command(), ["breaker", "close", "--reason", " ", "--resume"], env={"NO_COLOR": "1"})
    assert done.exit_code == 2
    assert "--reason is empty" in done.output.replace("\n", " ")
