"""Silence is counted by our own clock, from when a report last changed."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from sparewheel.silence import SilenceTracker


def test_silence_is_judged_by_changes_and_never_by_the_time_written_in_a_report() -> None:
    tracker = SilenceTracker()
    tracker.hear("n", "1999-01-01", now=100.0)
    assert tracker.silent_seconds("n", 130.0) == 30.0
    tracker.hear("n", "1999-01-01", now=130.0)
    assert tracker.silent_seconds("n", 140.0) == 40.0, "the same report again is no sign of life"
    tracker.hear("n", "1998-01-01", now=150.0)
    assert tracker.silent_seconds("n", 151.0) == 1.0, "a clock set back is one"
    assert tracker.silent_seconds("other", 151.0) is None


def test_silence_does_not_count_while_the_api_server_does_not_answer() -> None:
    tracker = SilenceTracker()
    tracker.hear("n", 1, now=0.0)
    tracker.api_failed(300.0)
    assert tracker.silent_seconds("n", 310.0) == 10.0


def test_a_first_sight_is_not_a_sign_of_life() -> None:
    tracker = SilenceTracker()
    tracker.hear("n", 1, now=0.0)
    assert tracker.last_heard("n") is None
    tracker.hear("n", 2, now=5.0)
    assert tracker.last_heard("n") == 5.0


SECONDS = st.integers(0, 100).map(float)


@given(heard=st.dictionaries(st.sampled_from("abc"), SECONDS), failed=SECONDS, seconds=SECONDS)
def test_who_is_silent_for_longer_is_the_same_asked_of_all_or_of_each(
    heard: dict[str, float], failed: float, seconds: float
) -> None:
    tracker, now = SilenceTracker(), 100.0
    for node, at in heard.items():
        tracker.hear(node, at, at)
    tracker.api_failed(failed)
    longer = [node for node in heard if (tracker.silent_seconds(node, now) or 0.0) > seconds]
    assert tracker.silent_longer(seconds, now) == longer
    assert tracker.names() == heard.keys()
