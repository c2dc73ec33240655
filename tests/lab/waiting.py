"""Awaiting what a data centre does in its own time."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from lab.waiting import wait_for


def eventually(condition: Callable[[], bool], seconds: float, otherwise: Callable[[], str]) -> None:
    """Await a condition; the test fails with `otherwise()` when it doesn't come."""
    wait_for(condition, seconds, otherwise, pytest.fail.Exception)
