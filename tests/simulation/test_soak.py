"""A fixed part of the soak, of which ``make soak`` plays 100,000, and the schedules that have found something once."""

from __future__ import annotations

from pathlib import Path

import pytest

from sparewheel.remediation.decide.veto import Sight
from tests.soak.player import play
from tests.soak.schedule import Event, Schedule, Shape, make_schedule
from tests.soak.shrink import shrink
from tests.soak.summary import Summary
from tests.soak.throughput import play_load
from tests.support import timeloop

FOUND = sorted((Path(__file__).parent.parent / "soak" / "found").glob("*.json"))
SEEDS, EACH = 12, 4


@pytest.mark.parametrize("first", range(0, SEEDS, EACH))
def test_schedules_with_fixed_seeds(first: int) -> None:
    for seed in range(first, first + EACH):
        result = play(make_schedule(seed))
        assert not result.wrongs, f"{result.schedule}\n" + "\n".join(result.wrongs)


@pytest.mark.parametrize("path", FOUND, ids=lambda path: path.stem)
def test_what_was_found_once(path: Path) -> None:
    result = play(Schedule.from_json(path.read_text()))
    assert not result.wrongs, f"{result.schedule}\n" + "\n".join(result.wrongs)
    assert result.incidents, "it is about something"


def test_reports_by_the_thousand_while_gpus_break_and_are_healed() -> None:
    load, wrongs = timeloop.run(play_load(8_000, 0))
    assert load.sent == 8_000
    assert not wrongs, "\n".join(wrongs)


def test_the_same_seed_is_the_same_play() -> None:
    first, second = play(make_schedule(1)), play(make_schedule(1))
    assert (first.seconds, first.writes, first.incidents) == (second.seconds, second.writes, second.incidents)


def test_a_wrong_thing_is_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    """The oracle is no rubber stamp: with vetoes overlooked, it says so."""

    def blind(_: Sight) -> str:
        return ""

    monkeypatch.setattr("sparewheel.remediation.decide.veto._wish", blind)
    shape = Shape(replicas=2, spares=1, grace_seconds=2)
    veto = Event(20.0, "veto", {"node": 0, "seconds": 60.0})
    fault = {"node": 0, "code": "XID 79", "action": "replace", "gpu": 1, "crash": False}
    result = play(Schedule(1, shape, (veto, Event(25.0, "break", fault))))
    assert any("in spite of a veto" in wrong for wrong in result.wrongs)


def test_a_failing_schedule_is_made_smaller() -> None:
    events = tuple(Event(float(at), "pause", {"number": at}) for at in range(20))
    small = shrink(Schedule(1, Shape(), events), lambda s: {3, 11} <= {e.fields["number"] for e in s.events})
    assert [event.fields["number"] for event in small.events] == [3, 11]


def test_a_soak_that_was_cut_goes_on_where_it_stopped(tmp_path: Path) -> None:
    path = tmp_path / "summary.json"
    summary = Summary(100, 50, "code")
    for part in ((110, 120), (100, 110), (130, 140)):
        summary.add(*part)
    summary.save(path)
    again = Summary.load(path, 100, 50, "code")
    assert again.done == [(100, 120), (130, 140)]
    assert again.left(10) == [(120, 130), (140, 150)]
    assert Summary.load(path, 100, 50, "other code").played == 0
