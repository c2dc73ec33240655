"""Awaiting what a data centre does in its own time."""

from __future__ import annotations

import time
from collections.abc import Callable

import pytest


def eventually(condition: Callable[[], bool], seconds: float, otherwise: Callable[[], str]) -> None:
    """Await a condition; the test fails with `otherwise()` when it doesn't come."""
    deadline = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > deadline:
            pytest.fail(f"{otherwise()} (waited {seconds:.0f} s)")
        time.sleep(0.2)
