"""Preconditions that stay unmet are shown once they last, said once per change, and gone from sight when met."""

from __future__ import annotations

import logging

import pytest

from sparewheel.kube.port import REMEDIATION
from sparewheel.remediation.controller.queue import Key
from sparewheel.remediation.controller.unmet import SHOW_AFTER_SECONDS, Unmet, in_words
from sparewheel.remediation.stages.incident import Incident, PreconditionError
from sparewheel.remediation.stages.journal import Journal
from tests.support.clocks import StillClock
from tests.support.incidents import fenced
from tests.support.world import World

pytestmark = pytest.mark.looptime


def scene() -> tuple[StillClock, Unmet, Incident, Key]:
    clock = StillClock()
    world = World(clock=clock)
    world.kube.put(REMEDIATION, fenced().to_wire())
    ports = world.controller().ports
    ports.leading = lambda: True
    incident = Incident(ports, Journal(world.kube, fenced()))
    return clock, Unmet(clock), incident, Key("track", incident.name)


async def test_one_that_lasts_is_shown_and_goes_when_it_is_met() -> None:
    clock, unmet, incident, key = scene()
    error = PreconditionError(f"{incident.name}: Node gpu-7 is not there or can't be read")
    await unmet.note(key, incident, error)
    clock.seconds += SHOW_AFTER_SECONDS - 0.1
    await unmet.note(key, incident, error)
    assert incident.record.status.waiting_for == "", "it may be met at the next look"
    clock.seconds += 0.1
    await unmet.note(key, incident, error)
    assert incident.record.status.waiting_for == "Node gpu-7 is not there or can't be read"
    await unmet.met(key, incident)
    assert incident.record.status.waiting_for == ""


async def test_it_is_said_once_per_change(caplog: pytest.LogCaptureFixture) -> None:
    clock, unmet, incident, key = scene()
    caplog.set_level(logging.INFO, "sparewheel.remediation")
    for text in ("first", "first", "second", "second", "first"):
        await unmet.note(key, incident, PreconditionError(text))
        clock.seconds += 0.5
    assert [record.getMessage().partition("reason=")[2] for record in caplog.records] == ["first", "second", "first"]


async def test_what_the_spare_waits_for_stands_with_the_spare() -> None:
    clock, unmet, incident, _ = scene()
    key = Key("spare", incident.name)
    for _ in range(2):
        await unmet.note(key, incident, PreconditionError(f"{incident.name} waits for a replacement slot"))
        clock.seconds += SHOW_AFTER_SECONDS
    assert incident.record.status.replacement.message == "a replacement slot"
    assert incident.record.status.waiting_for == ""


def test_the_incidents_own_name_is_left_out() -> None:
    assert in_words("i-1 waits for a spare", "i-1") == "a spare"
    assert in_words("i-1: Node n was uncordoned", "i-1") == "Node n was uncordoned"
    assert in_words("i-1 is closed", "i-1") == "is closed"
    assert in_words("nothing vetoes", "i-1") == "nothing vetoes"


async def test_what_is_over_leaves_nothing_behind() -> None:
    _, unmet, incident, key = scene()
    for one in (key, Key("route", f"{incident.name}/pager"), Key("track", "other")):
        await unmet.note(one, None, PreconditionError("x"))
    unmet.forget(incident.name)
    assert set(unmet._since) == {Key("track", "other")}
