"""Storage that is full, or that hangs for a moment, is waited for: a state that can't be written yet isn't lost."""

from __future__ import annotations

import errno
from collections.abc import Callable
from typing import TypeVar

from .clock import Clock
from .progress import say

RETRY_SECONDS = 2.0
PASSING = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EIO, errno.ESTALE, errno.ETIMEDOUT})
"""Errors of the storage, which end; a wrong path or missing rights don't."""

T = TypeVar("T")


def until_stored(write: Callable[[], T], give_up_at: float, clock: Clock, what: str) -> T:
    """What `write` returns. While the storage refuses it, it is done again, until `clock` reads `give_up_at`: then its
    OSError is raised. Says once that it waits for `what`."""
    told = False
    while True:
        try:
            return write()
        except OSError as error:
            if error.errno not in PASSING or clock.now() + RETRY_SECONDS > give_up_at:
                raise
            if not told:
                say(f"{what} waits for the storage ({error}), {give_up_at - clock.now():.0f} s at most")
                told = True
        clock.wait(RETRY_SECONDS)
