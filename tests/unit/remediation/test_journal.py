"""The journal of an incident: writers, staged changes, lost answers."""

from __future__ import annotations

import asyncio

import pytest

from sparewheel.api.remediation import NodeStage, Remediation
from sparewheel.kube.memory import MemoryKube
from sparewheel.kube.port import REMEDIATION, ConflictError, UnavailableError
from sparewheel.remediation.decide.record import begin_once, end
from sparewheel.remediation.stages.journal import Journal, RecordGoneError
from tests.support.clocks import LoopClock
from tests.support.incidents import at, remediation

SPACE = "sparewheel"


def stored(kube: MemoryKube) -> Remediation:
    body = kube.peek(REMEDIATION, "r", SPACE)
    assert body is not None
    return Remediation.from_wire(body)


def journal(kube: MemoryKube) -> Journal:
    return Journal(kube, Remediation.from_wire(kube.put(REMEDIATION, remediation("r").to_wire(), SPACE)))


@pytest.mark.looptime
async def test_two_writers_lose_nothing() -> None:
    kube = MemoryKube(clock=LoopClock())
    one = journal(kube)
    other = Journal(kube, one.record)
    await one.update(begin_once(NodeStage.DETECTED, at(0)))
    await other.update(begin_once(NodeStage.FENCED, at(1)))
    assert {record.name for record in stored(kube).status.stages} == {NodeStage.DETECTED, NodeStage.FENCED}


@pytest.mark.looptime
async def test_what_is_staged_is_seen_at_once_and_written_with_the_next_update() -> None:
    kube = MemoryKube(clock=LoopClock())
    one = journal(kube)
    one.stage(begin_once(NodeStage.DETECTED, at(0)))
    assert [record.name for record in one.status.stages] == [NodeStage.DETECTED]
    assert stored(kube).status.stages == []
    other = Journal(kube, stored(kube))
    await other.update(begin_once(NodeStage.CLOSED, at(2)))
    await one.update(begin_once(NodeStage.FENCED, at(1)))
    assert {record.name for record in stored(kube).status.stages} == {
        NodeStage.DETECTED, NodeStage.FENCED, NodeStage.CLOSED,
    }  # fmt: skip
    before = len(kube.writes)
    one.stage(begin_once(NodeStage.FENCED, at(9)))
    await one.flush()
    assert len(kube.writes) == before, "nothing new was staged"


@pytest.mark.looptime
async def test_what_is_staged_outlives_a_write_that_failed() -> None:
    kube = MemoryKube(clock=LoopClock())
    one = journal(kube)
    one.stage(begin_once(NodeStage.DETECTED, at(0)))
    kube.fail(UnavailableError("no answer"), "replace", REMEDIATION, when="before")
    with pytest.raises(UnavailableError):
        await one.flush()
    await one.flush()
    assert [record.name for record in stored(kube).status.stages] == [NodeStage.DETECTED]


@pytest.mark.looptime
async def test_concurrent_tracks_write_one_after_the_other() -> None:
    kube = MemoryKube(clock=LoopClock())
    one = journal(kube)
    await asyncio.gather(*(one.update(begin_once(stage, at(0))) for stage in NodeStage))
    assert len(stored(kube).status.stages) == len(NodeStage)


@pytest.mark.looptime
async def test_a_write_whose_answer_was_lost_is_read_again_before_the_next() -> None:
    kube = MemoryKube(clock=LoopClock())
    one = journal(kube)
    kube.fail(UnavailableError("no answer"), "replace", REMEDIATION, when="after")
    with pytest.raises(UnavailableError):
        await one.update(begin_once(NodeStage.DETECTED, at(0)))
    assert not await one.update(begin_once(NodeStage.DETECTED, at(9))), "it had taken effect"
    assert stored(kube).status.stages[0].started_at == at(0)


@pytest.mark.looptime
async def test_no_change_is_no_write_and_a_storm_of_conflicts_ends() -> None:
    kube = MemoryKube(clock=LoopClock())
    one = journal(kube)
    await one.update(end(NodeStage.DETECTED, at(0)))
    before = len(kube.writes)
    assert not await one.update(end(NodeStage.DETECTED, at(5)))
    assert len(kube.writes) == before
    kube.fail(ConflictError("409"), "replace", REMEDIATION, times=100)
    with pytest.raises(ConflictError, match="in a row"):
        await one.update(end(NodeStage.FENCED, at(5)))


@pytest.mark.looptime
async def test_a_deleted_record_ends_its_incident() -> None:
    kube = MemoryKube(clock=LoopClock())
    one = journal(kube)
    kube.drop(REMEDIATION, "r", SPACE)
    with pytest.raises(RecordGoneError):
        await one.update(begin_once(NodeStage.DETECTED, at(0)))
