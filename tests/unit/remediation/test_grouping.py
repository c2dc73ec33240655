"""Many messages become few: nothing is lost, nothing is told twice, and a takeover at any moment changes neither."""

from __future__ import annotations

import math
from collections import defaultdict
from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sparewheel.api.remediation import Delivery, FenceKind, Remediation
from sparewheel.remediation.decide import deliveries as post
from sparewheel.remediation.decide import grouping
from sparewheel.remediation.decide.events import EVENT_CLOSED, EVENT_DETECTED
from sparewheel.remediation.decide.grouping import (
    HOLD_ATTEMPTS,
    Carried,
    Go,
    Wait,
    alert_members,
    alert_of,
    decide,
    due,
)
from sparewheel.remediation.decide.outboxes import Line, Outboxes
from tests.support.incidents import at, fenced, remediation

WINDOW = 10.0


def incident(name: str, created: float = 0.0, event: str = EVENT_DETECTED, route: str = "hook") -> Remediation:
    """A fenced node's record with one message in it."""
    record = fenced(name)
    record.status = post.enqueue(name, event, [route], at(created))(record.status)
    return record


def first(record: Remediation) -> Delivery:
    return record.status.outbox[0]


def key(name: str) -> str:
    return f"{name}/{EVENT_DETECTED}/hook"


class World:
    """Records, and what a receiver got: message keys by the idempotency key that they came with."""

    def __init__(self, created: list[float]) -> None:
        self.records = {f"i{index}": incident(f"i{index}", when) for index, when in enumerate(created)}
        self.told: dict[str, set[str]] = defaultdict(set)
        self.sent_at: dict[str, float] = {}

    def apply(self, name: str, *changes: post.Change) -> None:
        for change in changes:
            self.records[name].status = change(self.records[name].status)

    def look(self, name: str, now: float, fate: str) -> None:
        """One look of the incident's outbox; ``fate`` is what becomes of a try."""
        (mine,) = self.records[name].status.outbox
        if post.state(mine) is not post.DeliveryState.QUEUED or mine.due_at > at(now) or mine.created_at > at(now):
            return
        born = [record for record in self.records.values() if record.status.outbox[0].created_at <= at(now)]
        match decide(mine, Outboxes.of(born), at(now), WINDOW):
            case Wait():
                return
            case Carried(by):
                if by.delivered_at is not None:
                    self.apply(name, post.told_by(mine.key, by))
            case Go(folds):
                if fate == "killed before the journal":
                    return
                self.apply(name, post.decided(mine.key, folds, at(now)))
                if fate == "killed after the journal":
                    return
                if fate == "refused":
                    self.apply(name, post.delivery_failed(mine.key, at(now), "503"))
                    return
                self.told[mine.key] |= {mine.key, *folds}
                self.sent_at.setdefault(mine.key, now)
                if fate != "killed after the answer":
                    self.apply(name, post.delivered(mine.key, at(now)))


FATES = ["accepted", "refused", "killed before the journal", "killed after the journal", "killed after the answer"]
births = st.lists(st.integers(0, 40).map(float), min_size=1, max_size=12)


@settings(max_examples=60, deadline=None)
@given(births, st.data())
def test_nothing_is_lost_and_nothing_told_twice_whatever_happens(created: list[float], data: st.DataObject) -> None:
    world = World(created)
    names = list(world.records)
    for now in range(0, 60, 4):
        for name in data.draw(st.permutations(names)):
            world.look(name, now, data.draw(st.sampled_from(FATES)))
    for now in range(60, 400, 20):
        for name in names:
            world.look(name, now, "accepted")
    carriers: dict[str, list[str]] = defaultdict(list)
    for carrier, keys in world.told.items():
        for told in keys:
            carriers[told].append(carrier)
    assert set(carriers) == {key(name) for name in names}, "every incident is told"
    assert all(len(by) == 1 for by in carriers.values()), "under one key, so a receiver has it once"
    outbox = [record.status.outbox[0] for record in world.records.values()]
    assert all(post.state(one) is post.DeliveryState.DELIVERED for one in outbox)
    assert all((one.folded_into or one.key) == carriers[one.key][0] for one in outbox), "the record says by which"


@settings(max_examples=60, deadline=None)
@given(births)
def test_no_more_than_one_message_a_window_and_the_first_at_once(created: list[float]) -> None:
    world = World(created)
    for second in range(60):
        for name in world.records:
            world.look(name, second, "accepted")
    times = sorted(world.sent_at.values())
    assert times[0] == min(created)
    assert all(later - earlier >= WINDOW for earlier, later in pairwise(times))
    assert len(times) <= 2 + math.ceil((max(created) - min(created)) / WINDOW)


def test_many_at_once_are_two_messages_and_more_than_one_can_carry_are_told_by_the_next(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(grouping, "MAX_FOLDS", 20)
    world = World([0.0] + [0.5] * 30)
    for now in (0.0, 0.5, 9.9, 10.0, 19.9, 20.0, 21.0):
        for name in world.records:
            world.look(name, now, "accepted")
    assert [len(keys) for keys in world.told.values()] == [1, 21, 9]
    assert set(world.sent_at.values()) == {0.0, 10.0, 20.0}


def test_without_a_window_each_goes_alone() -> None:
    records = [incident("a"), incident("b")]
    assert decide(first(records[0]), Outboxes.of(records), at(0), 0) == Go()


def test_a_clock_that_was_set_back_holds_nothing_for_longer_than_the_window() -> None:
    early, late = incident("a"), incident("b")
    early.status = post.decided(key("a"), [], at(80000))(early.status)
    assert decide(first(late), Outboxes.of([early, late]), at(0), WINDOW) == Wait(WINDOW)


def test_what_was_decided_stays_when_more_comes() -> None:
    leader, member, later = incident("a"), incident("b"), incident("c")
    leader.status = post.decided(key("a"), [key("b")], at(0))(leader.status)
    records = [leader, member, later]
    assert decide(first(leader), Outboxes.of(records), at(60), WINDOW) == Go((key("b"),))
    carried = decide(first(member), Outboxes.of(records), at(60), WINDOW)
    assert isinstance(carried, Carried)
    assert carried.by.key == key("a")


def test_a_carrier_that_is_gone_leaves_what_it_carried_to_be_told() -> None:
    alone = incident("b")
    assert decide(first(alone), Outboxes.of([alone]), at(60), WINDOW) == Go()


def test_other_people_routes_and_kinds_are_other_lines() -> None:
    mine = incident("a")
    other = incident("d")
    other.status = post.address(key("d"), [post.Recipient("ada", "hook")], at(0))(other.status)
    records = [mine, incident("b", event=EVENT_CLOSED), incident("c", route="chat"), other]
    assert decide(first(mine), Outboxes.of(records), at(0), WINDOW) == Go()
    assert decide(first(mine), Outboxes.of([*records, incident("e")]), at(0), WINDOW) == Go((key("e"),))
    assert decide(first(mine), Outboxes.of([*records, incident("e")]), at(0), WINDOW, {"a", "b"}) == Go()


def test_a_later_message_is_not_told_before_an_earlier_one_of_its_incident() -> None:
    early, late = incident("a", event=EVENT_CLOSED), incident("b")
    late.status = post.enqueue("b", EVENT_CLOSED, ["hook"], at(1))(late.status)
    assert decide(first(early), Outboxes.of([early, late]), at(2), WINDOW) == Go()
    for _ in range(HOLD_ATTEMPTS):
        late.status = post.delivery_failed(key("b"), at(2), "503")(late.status)
    assert decide(first(early), Outboxes.of([early, late]), at(2), WINDOW) == Go((f"b/{EVENT_CLOSED}/hook",))


def test_the_first_message_waits_for_the_jobs_but_not_for_long() -> None:
    record = remediation("a")
    record.status = post.enqueue("a", EVENT_DETECTED, ["hook"], at(0))(record.status)
    (message,) = record.status.outbox
    assert due(record, message, at(0)) == at(5)
    assert due(incident("a"), message, at(0)) == at(0), "fenced, so the jobs are known"
    record.status.fence = FenceKind.NONE
    assert due(record, message, at(0)) == at(0)


def test_a_message_that_a_clock_ahead_of_ours_queued_goes_now_and_a_failed_one_keeps_its_pause() -> None:
    record = incident("a", created=3600.0)
    assert due(record, first(record), at(1)) == at(1)
    record.status = post.delivery_failed(key("a"), at(1), "503")(record.status)
    assert due(record, first(record), at(1)) == at(2)


def test_incidents_told_together_are_one_alert() -> None:
    leader, member, alone = incident("a"), incident("b"), incident("c")
    leader.status = post.decided(key("a"), [key("b")], at(0))(leader.status)
    outboxes = Outboxes.of([leader, member, alone])
    assert [alert_of(name, "hook", outboxes) for name in "abc"] == ["a", "a", "c"]
    assert alert_members("a", "hook", outboxes) == {"a", "b"}
    assert alert_members("c", "hook", outboxes) == {"c"}
    assert alert_of("b", "chat", outboxes) == "b"


# -------------------------------------------------------------------- the look-up
@settings(max_examples=60, deadline=None)
@given(births, st.data())
def test_a_look_up_that_was_kept_says_what_one_made_anew_says(created: list[float], data: st.DataObject) -> None:
    world, kept = World(created), Outboxes()
    names = list(world.records)
    for now in range(0, 60, 4):
        for name in data.draw(st.permutations(names)):
            if data.draw(st.integers(0, 9)) == 0:
                kept.drop(name)
                world.records[name] = incident(name, created[names.index(name)])
            world.look(name, now, data.draw(st.sampled_from(FATES)))
            kept.put(world.records[name])
        anew = Outboxes.of(world.records.values())
        line = Line("hook", "", EVENT_DETECTED)
        assert kept.last_decided(line) == anew.last_decided(line)
        assert {one.key for one in kept.waiting(line)} == {one.key for one in anew.waiting(line)}
        assert [kept.carrier(key(name)) for name in names] == [anew.carrier(key(name)) for name in names]


class Counting(Outboxes):
    """Counts how many messages are looked at."""

    looks = 0

    def waiting(self, line: Line) -> list[Delivery]:
        found = super().waiting(line)
        self.looks += len(found)
        return found


@pytest.mark.parametrize("count", [200, 400])
def test_a_storm_is_decided_by_looking_at_each_message_once(count: int) -> None:
    records = {f"i{number}": incident(f"i{number}") for number in range(count)}
    outboxes = Counting.of(records.values())
    for name, record in records.items():
        plan = decide(first(record), outboxes, at(0), WINDOW)
        if isinstance(plan, Go):
            records[name].status = post.decided(key(name), plan.folds, at(0))(record.status)
            outboxes.put(record)
    assert sum(one.status.outbox[0].decided_at is not None for one in records.values()) == 1
    assert outboxes.looks == count
