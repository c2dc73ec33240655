"""What the engine is told of an error: the sentence alone, and of a fault of ours all of it."""

from __future__ import annotations

import traceback

import pytest

from components.plainly import NotDone, plainly
from sparewheel.capacity.port import CapacityError


class Context:
    """A call's, as far as the SDK uses it."""

    said = ""

    def abort(self, _code: object, details: str) -> None:
        self.said = details


def told(error: Exception) -> str:
    """As the SDK answers a failed call; tests/pulumi/test_pool_capacity.py asks the SDK itself."""

    def call(context: Context) -> None:
        try:
            create()
        except Exception:  # noqa: BLE001 - as the SDK does
            context.abort(None, traceback.format_exc())

    def create() -> None:
        with plainly():
            try:
                raise KeyError("below it")
            except KeyError as cause:
                raise error from cause

    context = Context()
    call(context)
    return context.said


def test_a_sentence_stands_alone() -> None:
    assert told(CapacityError("pool gpu: add machines")) == "pool gpu: add machines"


def test_a_fault_of_ours_keeps_its_traceback() -> None:
    shown = told(ValueError("a bug"))
    assert shown.startswith("Traceback")
    assert "below it" in shown


def test_without_the_sdk_the_sentence_is_raised_alone() -> None:
    with pytest.raises(NotDone, match="add machines") as caught, plainly():
        raise CapacityError("add machines")
    assert "CapacityError" not in "".join(traceback.format_exception(caught.value))
