"""Who may hold a node, for how long, what not knowing means, and what becomes of a veto that lasts."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sparewheel.api.names import AGENT_APP_NAME, ANNOTATION_VETO
from sparewheel.api.remediation import NodeStage, Remediation
from sparewheel.api.remediation_policy import VetoEscalation, VetoRule
from sparewheel.remediation.decide.drain import evictable
from sparewheel.remediation.decide.next_step import NodeAction, Situation, next_step
from sparewheel.remediation.decide.observations import Gone, Observations, PodView, Unknown
from sparewheel.remediation.decide.veto import Note, Sight, Verdict, parse_note, veto_of
from tests.support.incidents import at, claimed, fenced, node, pool, stage, worker

EVAL = PodView("eval", "team", "u", veto=True)
PAGE = VetoRule(max_seconds=100)
PROCEED = VetoRule(max_seconds=100, escalate=VetoEscalation.PROCEED)


def sight(*pods: PodView, note: str | None = None, seconds: float = 10.0, **fields: Any) -> Sight:
    annotations = {} if note is None else {ANNOTATION_VETO: note}
    values: dict[str, Any] = {
        "pods": pods,
        "node": node(annotations=annotations),
        "pool": pool().spec,
        "rule": PAGE,
    } | fields
    return Sight(now=at(seconds), **values)


def vetoed(since: float = 5.0) -> Remediation:
    record = fenced()
    record.status.stages.append(stage(NodeStage.VETOED, since))
    return record


def reason(*pods: PodView, **fields: Any) -> str:
    return veto_of(fenced(), sight(*pods, **fields)).reason


def test_a_pod_with_the_label_vetoes_until_it_has_ended() -> None:
    assert reason(EVAL) == "the veto of pod team/eval"
    assert reason(replace(EVAL, finished=True)) == ""
    assert reason(replace(EVAL, deletion_due=at(0))) != ""
    assert reason(worker()) == ""
    assert reason(EVAL, replace(EVAL, name="b")) == "the veto of pods team/b, team/eval"


def test_a_node_vetoes_by_its_annotation_until_its_time() -> None:
    until = at(60).isoformat()
    assert reason(note=f"until={until}; a long evaluation", seconds=59) == (
        "the veto on node gpu-7 until 2026-01-01 00:01:00 UTC (a long evaluation)"
    )
    assert reason(note=f"until={until}; a long evaluation", seconds=60) == ""
    assert reason(note="", seconds=1e9) == "the veto on node gpu-7"
    assert reason(EVAL, note="") == "the veto of pod team/eval and the veto on node gpu-7"


def test_a_pods_veto_may_have_an_end_too() -> None:
    pod = replace(EVAL, veto_note=f"until={at(60).isoformat()}")
    assert reason(pod, seconds=59)
    assert not reason(pod, seconds=61)


@pytest.mark.parametrize("text", ["until=tomorrow; x", "until=; x", "until=2026-13-01T00:00:00Z"])
def test_a_time_that_cannot_be_read_is_no_end(text: str) -> None:
    note = parse_note(text)
    assert note.until is None
    assert "is no RFC 3339 time" in note.reason
    assert reason(note=text, seconds=1e9)


@given(st.text(max_size=60))
def test_no_text_is_an_error(text: str) -> None:
    parse_note(text)


@given(st.datetimes(timezones=st.just(UTC)), st.text(alphabet=st.characters(exclude_characters=";"), max_size=20))
def test_what_is_written_is_read(until: datetime, why: str) -> None:
    assert parse_note(f"until={until.isoformat()}; {why}") == Note(until, why.strip())
    assert parse_note(f"until={until.isoformat().replace('+00:00', 'Z')};{why}") == Note(until, why.strip())


def test_a_look_up_that_failed_and_a_paused_pool_veto() -> None:
    assert "503" in veto_of(fenced(), sight(pods=Unknown("list Pod: 503"))).reason
    assert "503" in veto_of(fenced(), sight(node=Unknown("get Node: 503"))).reason
    assert reason(pool=pool(paused=True).spec) == "pool gpu, which is paused"
    assert reason(node=Gone()) == "", "a node that is gone has no annotation"


def test_a_veto_that_lasts_is_escalated_as_the_policy_says() -> None:
    assert veto_of(vetoed(), sight(EVAL, seconds=104)) == Verdict("the veto of pod team/eval")
    assert veto_of(vetoed(), sight(EVAL, seconds=105)) == Verdict("the veto of pod team/eval", overdue=True)
    gave_way = veto_of(vetoed(), sight(EVAL, seconds=105, rule=PROCEED))
    assert gave_way == Verdict(set_aside="the veto of pod team/eval, set aside by the policy after 100 s")
    assert veto_of(vetoed(), sight(seconds=105)) == Verdict()


@pytest.mark.parametrize(
    "fields",
    [{"pods": Unknown("cut")}, {"node": Unknown("cut")}, {"pool": pool(paused=True).spec}],
)
def test_not_knowing_and_a_pause_never_give_way(fields: dict[str, Any]) -> None:
    verdict = veto_of(vetoed(), sight(EVAL, seconds=1e6, rule=PROCEED, **fields))
    assert verdict.reason
    assert not verdict.set_aside


def test_overdue_is_told_once_and_the_node_stays_as_it_is() -> None:
    record = vetoed()
    seen = Observations(node(unschedulable=True), pods=(EVAL, worker()))

    def actions() -> list[NodeAction]:
        step = next_step(record, seen, Situation(pool().spec, at(105), PAGE))
        assert step.waiting_for == "the veto of pod team/eval"
        return [todo.action for todo in step.todo]

    assert actions() == [NodeAction.VETO_OVERDUE]
    record.status.veto_escalated_at = at(105)
    assert actions() == []


def test_after_it_was_set_aside_the_pod_is_drained_like_others() -> None:
    record = claimed(fenced())
    record.status.stages.append(stage(NodeStage.VETOED, 5, 105))
    seen = Observations(node(unschedulable=True), pods=(EVAL,))
    step = next_step(record, seen, Situation(pool().spec, at(106), PROCEED))
    assert [(todo.action, todo.pod) for todo in step.todo] == [(NodeAction.EVICT, EVAL)]
    assert evictable([EVAL], AGENT_APP_NAME) == []
