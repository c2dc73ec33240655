"""Events of an incident: made from the record alone, named the same each time, and never in anybody's way."""

from __future__ import annotations

import logging
import re

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sparewheel.api.names import REASON_CANCELLED, REASON_CLOSED, REASON_DETECTED, REASON_FENCED, REASON_VETOED
from sparewheel.api.remediation import FenceKind, JobRecord, NodeStage, Outcome, Remediation
from sparewheel.kube.pace import URGENCY, Urgency
from sparewheel.kube.port import EVENT, InvalidError, UnavailableError
from sparewheel.remediation.controller.events import RETRY_SECONDS, Events
from sparewheel.remediation.controller.state import State
from sparewheel.remediation.decide.happenings import MAX_JOBS, MAX_NOTE_BYTES, event_bodies, happenings
from sparewheel.remediation.decide.record import begin, close, end, reopen_veto
from tests.support.incidents import at, claimed, fault, fenced, remediation
from tests.support.world import World

pytestmark = pytest.mark.looptime


ADAS = JobRecord(job_id=7, user="ada", requeued_at=at(3), resumed_at=at(9), resumed_from_step=40, closed=True)


def reasons(record: Remediation) -> list[str]:
    return [happening.reason for happening in happenings(record)]


def test_a_new_record_has_nothing_to_tell() -> None:
    assert reasons(remediation()) == []


def test_each_step_is_told_in_order() -> None:
    record = fenced(jobs=[ADAS])
    record.status.replacement.message = "a spare: pool gpu has none"
    assert reasons(record) == [REASON_DETECTED, REASON_FENCED, "WaitingForSpare", "JobRequeued", "JobResumed"]
    record = claimed(record)
    record.status.replacement.admitted_at = at(8)
    record.status = close(Outcome.HEALED, at(12), "gone well")(record.status)
    assert reasons(record) == [
        REASON_DETECTED,
        REASON_FENCED,
        "NodeReplaced",
        REASON_CLOSED,
        "JobRequeued",
        "JobResumed",
    ]
    notes = [happening.note for happening in happenings(record)]
    assert notes[1] == "Cordoned and tainted; Slurm node gpu-0 is DOWN, 1 job there given 60 s to save"
    assert notes[-1] == "Resumed: job 7 of ada from step 40"


def test_a_veto_that_comes_back_is_told_again_and_a_cancel_is_no_close() -> None:
    record = fenced()
    first = reopen_veto(at(5))(record.status)
    record.status = reopen_veto(at(9))(end(NodeStage.VETOED, at(7))(first))
    keys = [happening.key for happening in happenings(record) if happening.reason == REASON_VETOED]
    assert keys == ["vetoed-2"]
    record.status = close(Outcome.CANCELLED, at(10), "uncordoned")(record.status)
    assert REASON_CANCELLED in reasons(record)
    assert REASON_CLOSED not in reasons(record)


def test_jobs_are_told_together_once_it_is_known_of_each() -> None:
    waits = ADAS.model_copy(update={"job_id": 8, "requeued_at": None, "resumed_at": None, "closed": False})
    assert "JobRequeued" not in reasons(fenced(jobs=[ADAS, waits]))
    waits = waits.model_copy(update={"requeued_at": at(5)})
    assert reasons(fenced(jobs=[ADAS, waits]))[-1] == "JobRequeued"
    lost = waits.model_copy(update={"requeued_at": None, "closed": True, "not_requeued_reason": "it said so"})
    told = happenings(fenced(jobs=[ADAS, lost]))[-3:]
    assert [one.note for one in told] == [
        "Requeued: job 7 of ada",
        "Resumed: job 7 of ada from step 40",
        "Not coming back by themselves: job 8 of ada (it said so)",
    ]
    assert [one.time for one in told] == [at(3), at(9), None]
    many = [ADAS.model_copy(update={"job_id": number}) for number in range(MAX_JOBS + 3)]
    assert happenings(fenced(jobs=many))[-2].note.endswith("job 9 of ada and 3 more")


def test_a_dry_run_touches_nothing_and_says_so() -> None:
    record = remediation(dry_run=True)
    for change in (begin(NodeStage.DETECTED, at(0)), end(NodeStage.DETECTED, at(0))):
        record.status = change(record.status)
    record.status = close(Outcome.DRY_RUN, at(1), "would have")(record.status)
    assert reasons(record) == [REASON_DETECTED, REASON_CLOSED]
    assert happenings(record)[0].note.startswith("Dry run: ")


@settings(deadline=None)  # many jobs: what is in the Events is checked, not how long they take
@given(
    message=st.text(max_size=1100),
    jobs=st.integers(0, MAX_JOBS + 2),
    kind=st.sampled_from(list(FenceKind)),
    outcome=st.sampled_from(list(Outcome)),
    instance=st.text(max_size=300),
)
def test_every_event_fits_what_the_api_server_accepts(
    message: str, jobs: int, kind: FenceKind, outcome: Outcome, instance: str
) -> None:
    record = fenced(jobs=[JobRecord(job_id=n, closed=True, not_requeued_reason=message or "x") for n in range(jobs)])
    record.spec.fault = fault(message=message)
    record.status.fence = kind
    if outcome is not Outcome.OPEN:
        record.status = close(outcome, at(3), message)(record.status)
    bodies = [body for what in happenings(record) for body in event_bodies(record, what, instance, at(4))]
    names = [(body["metadata"]["namespace"], body["metadata"]["name"]) for body in bodies]
    assert len(set(names)) == len(names)
    assert len(bodies) <= 2 * 7
    for body in bodies:
        assert re.fullmatch(r"[a-z0-9]([-a-z0-9.]*[a-z0-9])?", body["metadata"]["name"])
        assert len(body["note"].encode()) <= MAX_NOTE_BYTES
        assert 0 < len(body["reportingInstance"]) <= 128
        assert body["reason"]
        assert body["action"]
        assert body["regarding"].get("namespace", "default") == body["metadata"]["namespace"]
        assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{6}Z", body["eventTime"])


def scene() -> tuple[World, State, Remediation]:
    world = World()
    state, record = State(world.kube, world.clock, "sparewheel"), fenced()
    state.put_record(record)
    return world, state, record


def stored(world: World) -> int:
    return len([call for call in world.kube.writes if call.resource == EVENT])


async def test_written_once_also_by_the_next_controller() -> None:
    world, state, record = scene()
    first, second = Events(state, "one"), Events(state, "two")
    assert await first.look(record.metadata.name) is None
    assert URGENCY.get() is Urgency.BACKGROUND
    assert stored(world) == 4, "two happenings, each about the node and about the record"
    await first.look(record.metadata.name)
    assert stored(world) == 4
    assert await second.look(record.metadata.name) is None
    listed = (await world.kube.list(EVENT)).items
    assert len(listed) == 4
    assert {body["reportingInstance"] for body in listed} == {"one"}
    assert sorted(body["metadata"]["namespace"] for body in listed) == ["default"] * 2 + ["sparewheel"] * 2


async def test_a_refusal_is_a_line_in_the_log(caplog: pytest.LogCaptureFixture) -> None:
    world, state, record = scene()
    caplog.set_level(logging.INFO, "sparewheel.remediation")
    world.kube.fail(InvalidError("403 forbidden"), "create", EVENT, times=100)
    events = Events(state, "one")
    assert await events.look(record.metadata.name) is None
    assert all("event_refused" in one.getMessage() for one in caplog.records)
    assert len(caplog.records) == 4
    await events.look(record.metadata.name)
    assert len(caplog.records) == 4, "not asked for ever"


async def test_no_answer_is_asked_again_later() -> None:
    world, state, record = scene()
    world.kube.fail(UnavailableError("no answer"), "create", EVENT, when="after")
    events = Events(state, "one")
    assert await events.look(record.metadata.name) == RETRY_SECONDS
    assert await events.look(record.metadata.name) is None
    assert len((await world.kube.list(EVENT)).items) == 4


async def test_the_record_of_an_incident_that_is_gone_is_forgotten() -> None:
    world, state, record = scene()
    events = Events(state, "one")
    await events.look(record.metadata.name)
    before = stored(world)
    state.drop_record(record.metadata.name)
    assert await events.look(record.metadata.name) is None
    assert stored(world) == before
