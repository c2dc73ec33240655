"""The one waiting loop, on a clock of its own; and what a reset of the data centre means with a platform on it."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from typer.testing import CliRunner

from lab import __main__ as lab_main
from lab.cluster.lifecycle import DataCentre
from lab.waiting import wait_for


class Clock:
    def __init__(self) -> None:
        self.now = 0.0

    def read(self) -> float:
        return self.now

    def sleep(self, seconds: float) -> None:
        self.now += seconds


def wait(look: Callable[[], object], otherwise: Callable[[], str] = lambda: "nothing came") -> tuple[object, float]:
    clock = Clock()
    answer = wait_for(look, 10, otherwise, LookupError, look_seconds=1, clock=clock.read, sleep=clock.sleep)
    return answer, clock.now


def test_the_first_answer_is_given_at_once() -> None:
    assert wait(lambda: "here") == ("here", 0)


@pytest.mark.parametrize("answer", [0, "", []], ids=["zero", "empty text", "empty list"])
def test_an_empty_answer_is_an_answer(answer: object) -> None:
    assert wait(lambda: answer) == (answer, 0)


@pytest.mark.parametrize("nothing", [None, False])
def test_nothing_is_looked_for_again(nothing: object) -> None:
    answers = iter([nothing, nothing, True])
    assert wait(lambda: next(answers)) == (True, 2)


def test_the_error_is_the_callers_and_says_how_far_things_came() -> None:
    looks: list[int] = []

    def look() -> bool:
        looks.append(1)
        return False

    with pytest.raises(LookupError, match=r"looked 12 times \(waited 10 s\)"):
        wait(look, lambda: f"looked {len(looks)} times")


@pytest.mark.parametrize(("up", "done"), [(True, ["up", "restore"]), (False, ["up", "reset"])])
def test_a_reset_restores_the_platform_where_one_is_up(
    monkeypatch: pytest.MonkeyPatch, up: bool, done: list[str]
) -> None:
    calls: list[str] = []

    def call(name: str) -> Callable[[object], None]:
        def called(_: object) -> None:
            calls.append(name)

        return called

    def is_up(_: object) -> bool:
        return up

    monkeypatch.setattr(DataCentre, "up", call("up"))
    monkeypatch.setattr(DataCentre, "reset", call("reset"))
    monkeypatch.setattr(lab_main, "restore", call("restore"))
    monkeypatch.setattr(lab_main, "stack_is_up", is_up)
    assert CliRunner().invoke(lab_main.app, ["reset"]).exit_code == 0
    assert calls == done
