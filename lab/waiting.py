"""Looking until there is an answer: the one waiting loop of the data centre, its demo and its tests."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TypeVar

T = TypeVar("T")
LOOK_SECONDS = 0.25
TELL_SECONDS = 15.0


def wait_for(
    look: Callable[[], T | None],
    seconds: float,
    otherwise: Callable[[], str],
    error: Callable[[str], BaseException],
    *,
    tell: Callable[[str], None] | None = None,
    look_seconds: float = LOOK_SECONDS,
    clock: Callable[[], float] = time.monotonic,
    sleep: Callable[[float], None] = time.sleep,
) -> T:
    """The first answer that is neither None nor False. ``error(otherwise())`` is raised after ``seconds``.

    It looks once at least, and ``otherwise`` is asked only then, so it can say how far things have come; ``tell`` is
    told it every fifteen seconds as well.
    """
    told = clock()
    deadline = told + seconds
    while True:
        answer = look()
        if answer is not None and answer is not False:
            return answer
        now = clock()
        if now > deadline:
            raise error(f"{otherwise()} (waited {seconds:.0f} s)")
        if tell is not None and now - told >= TELL_SECONDS:
            told = now
            tell(otherwise())
        sleep(look_seconds)
