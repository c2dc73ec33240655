"""When a spare that doesn't answer gives way to another."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from sparewheel.api.remediation import Remediation
from sparewheel.remediation.decide.record import drop_spare
from sparewheel.remediation.decide.spares import JOIN_DEADLINE_SECONDS, SILENT_SECONDS, SpareAction, next_spare_step
from tests.support.incidents import at, claimed, fenced, pool


def joining(*, silent_since: float | None = 10, was_off: bool = False) -> Remediation:
    record = claimed(fenced(), 2)
    replacement = record.status.replacement
    replacement.join_asked_at, replacement.spare_was_off = at(3), was_off
    replacement.spare_silent_since = None if silent_since is None else at(silent_since)
    return record


def action(record: Remediation, seconds: float, *, another_free: bool) -> SpareAction:
    return next_spare_step(record, pool().spec, "", [record], at(seconds), another_free=another_free).action


def test_it_is_passed_over_when_another_is_free_and_it_was_silent_for_long_enough() -> None:
    assert action(joining(), 10 + SILENT_SECONDS - 0.1, another_free=True) is SpareAction.JOIN
    assert action(joining(), 10 + SILENT_SECONDS, another_free=True) is SpareAction.TRY_ANOTHER


def test_the_last_one_is_waited_for_until_the_deadline() -> None:
    assert action(joining(), 2 + JOIN_DEADLINE_SECONDS, another_free=False) is SpareAction.JOIN
    assert action(joining(), 3 + JOIN_DEADLINE_SECONDS, another_free=False) is SpareAction.GIVE_UP


def test_one_that_was_switched_on_for_this_may_boot() -> None:
    assert action(joining(was_off=True), 500, another_free=True) is SpareAction.JOIN


@given(seconds=st.floats(min_value=3, max_value=2 + JOIN_DEADLINE_SECONDS), another_free=st.booleans())
def test_one_that_answers_is_never_passed_over(seconds: float, another_free: bool) -> None:
    assert action(joining(silent_since=None), seconds, another_free=another_free) is SpareAction.JOIN
    joined = joining()
    joined.status.replacement.joined_at = at(11)
    assert action(joined, seconds, another_free=another_free) is SpareAction.CHECK


def test_the_next_spare_begins_anew() -> None:
    record = joining(was_off=True)
    dropped = drop_spare(record.status.replacement.spare_host or "", refused=False, message="")(record.status)
    assert (dropped.replacement.spare_silent_since, dropped.replacement.spare_was_off) == (None, False)
