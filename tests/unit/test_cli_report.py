"""``sparewheel report``, ``timeline --html`` and the choices of ``remediations``."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable, Coroutine
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, cast

import pytest
from typer.testing import CliRunner

from sparewheel.api.base import ObjectMeta
from sparewheel.api.faults import Fault
from sparewheel.api.names import NAMESPACE, POLICY_NAME
from sparewheel.api.remediation_policy import RemediationPolicy, RemediationPolicySpec
from sparewheel.cli.app import every_command
from sparewheel.cli.commands import report, reports
from sparewheel.cli.common import CommandError, fail
from sparewheel.kube.memory import MemoryKube
from sparewheel.kube.port import GPU_HOST, GPU_POOL, NODE_HEALTH, REMEDIATION, REMEDIATION_POLICY, Kube
from tests.support.week_world import cluster

PLAIN = {"COLUMNS": "200", "NO_COLOR": "1", "TERM": "dumb"}


@pytest.fixture
def kube(monkeypatch: pytest.MonkeyPatch) -> MemoryKube:
    """The week that tests look at, as if it had ended now."""
    memory, seen = MemoryKube(), cluster()
    later = datetime.now(UTC) - seen.now
    for pool in seen.pools:
        memory.put(GPU_POOL, pool.to_wire(), NAMESPACE)
    for host in seen.hosts:
        memory.put(GPU_HOST, host.to_wire(), NAMESPACE)
    for health in seen.health:
        memory.put(NODE_HEALTH, health.to_wire())
    for record in seen.records:
        fault = record.spec.fault
        times = {"first_seen": fault.first_seen + later, "last_seen": fault.last_seen + later}
        record.spec.fault = Fault.model_validate({**fault.model_dump(), **times})
        memory.put(REMEDIATION, record.to_wire(), NAMESPACE)
    policy = RemediationPolicy(metadata=ObjectMeta(name=POLICY_NAME), spec=RemediationPolicySpec())
    memory.put(REMEDIATION_POLICY, policy.to_wire(), NAMESPACE)

    def run(command: Callable[[Kube], Awaitable[None]]) -> None:
        try:
            asyncio.run(cast("Coroutine[Any, Any, None]", command(memory)))
        except CommandError as error:
            fail(error)

    monkeypatch.setattr(reports, "run", run)
    monkeypatch.setattr(report, "run", run)
    return memory


def said(*arguments: str, code: int = 0) -> str:
    done = CliRunner().invoke(every_command(), list(arguments), env=PLAIN)
    assert done.exit_code == code, done.output
    return done.output


def test_the_report_is_a_table_with_what_needs_a_person_below(kube: MemoryKube) -> None:
    text = said("report")
    assert "3: 2 healed, 1 open, 0 failed" in text
    assert "- Host h9 is in quarantine" in text
    assert "fault to new step" in text


def test_for_scripts_the_same_as_json_and_of_fewer_days(kube: MemoryKube) -> None:
    assert json.loads(said("report", "-o", "json"))["incidents"] == 3
    assert json.loads(said("report", "--days", "1", "-o", "json"))["drills"] == 0


@pytest.mark.parametrize(
    ("command", "holds"), [(["report"], "Needs a person"), (["timeline", "gpu-1-xid-79-1"], "svg")]
)
def test_a_page_is_one_file(kube: MemoryKube, tmp_path: Path, command: list[str], holds: str) -> None:
    file = tmp_path / "page.html"
    assert f"Written to {file}" in said(*command, "--html", str(file)).replace("\n", "")
    assert holds in file.read_text()
    assert said(*command, "--html", "-").startswith("<!doctype html>")


def test_a_file_that_cannot_be_written_is_one_error(kube: MemoryKube, tmp_path: Path) -> None:
    text = said("report", "--html", str(tmp_path / "no" / "page.html"), code=1)
    assert "can't be written (No such file or directory); name another file after --html" in text.replace("\n", "")


@pytest.mark.parametrize(
    ("options", "names"),
    [
        ([], 5),
        (["--open"], 1),
        (["--node", "gpu-1"], 2),
        (["--node", "gpu-1", "--days", "2"], 1),
        (["--days", "7"], 4),
    ],
)
def test_incidents_can_be_chosen(kube: MemoryKube, options: list[str], names: int) -> None:
    assert len(json.loads(said("remediations", *options, "-o", "json"))) == names


def test_none_of_those_chosen_is_not_none_at_all(kube: MemoryKube) -> None:
    assert "No remediation is like that." in said("remediations", "--node", "gpu-77")


async def test_without_a_policy_the_report_says_what_makes_one() -> None:
    with pytest.raises(CommandError, match="run `pulumi up`, which makes it"):
        await report.look(MemoryKube(), datetime.now(UTC) + timedelta(0))
