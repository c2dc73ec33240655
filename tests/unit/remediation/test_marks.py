"""The mark that a cordon leaves on the Node says what is ours, whoever reads it and however often it is written."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from sparewheel.api.names import ANNOTATION_OWNED, ANNOTATION_REMEDIATION, TAINT_FAULT
from sparewheel.remediation.decide.marks import Mark, mark_of, mark_to_write, our_cordon, owned
from sparewheel.remediation.decide.observations import NodeView
from tests.support.incidents import node, remediation

NAME = remediation().metadata.name
flags = st.booleans()


def cordoned(seen: NodeView, mark: Mark) -> NodeView:
    """The Node after the cordon's patch."""
    marks = {ANNOTATION_REMEDIATION: NAME, ANNOTATION_OWNED: mark.text}
    return node(unschedulable=True, taints=seen.taints | {TAINT_FAULT}, annotations=marks)


@given(flags, flags)
def test_what_others_did_before_stays_theirs_however_often_it_is_cordoned(unschedulable: bool, tainted: bool) -> None:
    before = node(unschedulable=unschedulable, taints=frozenset({TAINT_FAULT} if tainted else ()))
    mark = mark_to_write(remediation(), before)
    assert mark == Mark(cordon=not unschedulable, fault_taint=not tainted)
    after = cordoned(before, mark)
    assert mark_of(remediation(), after) == mark == mark_to_write(remediation(), after)
    record = remediation()
    record.status = owned(mark)(record.status)
    assert (record.status.owned.cordon, record.status.owned.fault_taint) == (mark.cordon, mark.fault_taint)


@given(flags, flags)
def test_another_incidents_mark_is_not_ours(cordon: bool, taint: bool) -> None:
    marks = {ANNOTATION_REMEDIATION: "another", ANNOTATION_OWNED: Mark(cordon, taint).text}
    seen = node(unschedulable=True, taints=frozenset({TAINT_FAULT}), annotations=marks)
    assert mark_of(remediation(), seen) == mark_to_write(remediation(), seen) == Mark()


def test_what_is_taken_away_in_between_is_ours_once_it_is_put_again() -> None:
    marks = {ANNOTATION_REMEDIATION: NAME, ANNOTATION_OWNED: ""}
    assert mark_to_write(remediation(), node(annotations=marks)) == Mark(cordon=True, fault_taint=True)


@given(flags, flags)
def test_what_an_older_controller_cordoned_is_its_records_still(cordon: bool, taint: bool) -> None:
    record = remediation()
    record.status = owned(Mark(cordon, taint))(record.status)
    seen = node(unschedulable=True, taints=frozenset({TAINT_FAULT}), annotations={ANNOTATION_REMEDIATION: NAME})
    assert mark_of(record, seen) == mark_to_write(record, seen) == Mark(cordon, taint)


@given(flags, flags)
def test_a_cordon_is_ours_by_the_record_or_by_the_node(journalled: bool, marked_so: bool) -> None:
    record = remediation()
    record.status = owned(Mark(cordon=journalled))(record.status)
    marks = {ANNOTATION_REMEDIATION: NAME, ANNOTATION_OWNED: Mark(cordon=marked_so).text}
    assert our_cordon(record, node(annotations=marks)) is (journalled or marked_so)
    assert our_cordon(record, node()) is journalled
