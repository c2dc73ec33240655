"""``sparewheel why JOBID`` for people and for scripts, and the one name that a reason has on the command line."""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable

import pytest
from typer.testing import CliRunner

from sparewheel.api.names import NAMESPACE
from sparewheel.api.remediation import JobRecord
from sparewheel.cli.app import app
from sparewheel.cli.commands import reports
from sparewheel.kube.memory import MemoryKube
from sparewheel.kube.port import REMEDIATION, Kube
from tests.support.incidents import remediation


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
    done = CliRunner().invoke(app, ["why", "42", "--output", "json"])
    assert done.exit_code == 0, done.output
    (found,) = json.loads(done.output)
    assert (found["remediation"], found["fault"]) == ("gpu-7-xid-79-0", "XID 79")
    assert found["sentence"] == "Your job 42 goes on from step 7."
    assert (found["job"]["jobId"], found["job"]["user"]) == (42, "alice")


def test_a_job_that_nothing_touched_is_an_empty_list(kube: MemoryKube) -> None:
    done = CliRunner().invoke(app, ["why", "41", "-o", "json"])
    assert json.loads(done.output) == []
    assert "No incident of the platform touched job 41" in CliRunner().invoke(app, ["why", "41"]).output


def test_a_reason_has_one_name_everywhere() -> None:
    for command in (["breaker", "close"], ["cancel"], ["host", "release"]):
        shown = CliRunner().invoke(app, [*command, "--help"], env={"COLUMNS": "200", "NO_COLOR": "1", "TERM": "dumb"})
        assert "--reason" in shown.output, command
        assert "--why" not in shown.output, command


def test_an_empty_reason_closes_nothing() -> None:
    done = CliRunner().invoke(app, ["breaker", "close", "--reason", " ", "--resume"], env={"NO_COLOR": "1"})
    assert done.exit_code == 2
    assert "--reason is empty" in done.output.replace("\n", " ")
