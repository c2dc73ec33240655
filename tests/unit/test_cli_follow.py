"""``sparewheel timeline``: what an incident waits for, and following it to its end."""

from __future__ import annotations

import asyncio

import pytest
import typer

from sparewheel.api.names import NAMESPACE
from sparewheel.api.remediation import NodeStage, Outcome, Remediation
from sparewheel.cli import timeline
from sparewheel.cli.commands.reports import FOLLOW_SECONDS, followed
from sparewheel.cli.common import run
from sparewheel.kube.memory import MemoryKube
from sparewheel.kube.port import REMEDIATION, InvalidError, KubeError, UnavailableError
from tests.support.clocks import LoopClock
from tests.support.incidents import claimed, fenced, stage

NAME = "gpu-7-xid-79-0"


def ended(outcome: Outcome) -> Remediation:
    record = claimed(fenced())
    record.status.stages[2:] = [stage(NodeStage.REPLACED, 2, 9), stage(NodeStage.CLOSED, 9, 16)]
    record.status.outcome, record.status.message = outcome, "Replaced by spare-1."
    return record


def test_an_open_incident_says_what_it_waits_for() -> None:
    record = fenced()
    record.status.waiting_for = "a spare"
    assert timeline.closing_lines(record)[-1] == "It waits for a spare."
    assert timeline.as_json(record)["waiting_for"] == "a spare"
    assert timeline.as_json(record)["jobs"][0]["job_id"] == 7
    assert timeline.closing_lines(fenced())[-1] == "It goes on."
    assert timeline.closing_lines(ended(Outcome.HEALED))[-1] == "Replaced by spare-1."


def test_each_thing_is_told_once() -> None:
    told: set[str] = set()
    first = timeline.news(told, fenced())
    assert [line.split("s  ")[-1] for line in first][:2] == ["node: detected began", "node: detected ended"]
    assert timeline.news(told, fenced()) == []
    later = timeline.news(told, ended(Outcome.HEALED))
    assert "     9.0 s  node: replaced ended" in later
    assert later[-1] == f"{NAME}: Healed"


@pytest.mark.looptime
@pytest.mark.parametrize(("outcome", "code"), [(Outcome.HEALED, None), (Outcome.FAILED, 1)])
async def test_it_is_followed_to_its_end_also_over_a_silence(
    capsys: pytest.CaptureFixture[str], outcome: Outcome, code: int | None
) -> None:
    kube = MemoryKube()
    kube.put(REMEDIATION, fenced().to_wire(), NAMESPACE)
    following = asyncio.create_task(followed(kube, LoopClock(), fenced()))
    await asyncio.sleep(FOLLOW_SECONDS * 3)
    kube.fail(UnavailableError("away"), "get", REMEDIATION)
    await asyncio.sleep(FOLLOW_SECONDS * 3)
    assert not following.done()
    kube.put(REMEDIATION, ended(outcome).to_wire(), NAMESPACE)
    if code is None:
        await following
    else:
        with pytest.raises(typer.Exit) as left:
            await following
        assert left.value.exit_code == code
    assert capsys.readouterr().out.splitlines()[-1] == f"{NAME}: {outcome.value}"


@pytest.mark.parametrize(
    ("error", "says"),
    [
        (InvalidError("list Remediation in sparewheel: 403 forbidden"), "use another, or have its role changed"),
        (InvalidError("list Remediation in sparewheel: 422 no"), "422 no"),
    ],
)
def test_a_refusal_says_what_to_do(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], error: KubeError, says: str
) -> None:
    async def refused(_: object) -> None:
        raise error

    monkeypatch.setattr("sparewheel.cli.common.from_environment", lambda: None)
    monkeypatch.setattr("sparewheel.cli.common.KubeClient", _NoClient)
    with pytest.raises(typer.Exit):
        run(refused)
    assert capsys.readouterr().err.strip().endswith(says)


class _NoClient:
    def __init__(self, access: object) -> None:
        self.access = access

    async def __aenter__(self) -> None:
        return None

    async def __aexit__(self, *_: object) -> None:
        return None
