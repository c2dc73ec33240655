"""What freed lists took goes back to the system."""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from typing import Final

from sparewheel.clock import Clock

EVERY_SECONDS: Final = 3.0


def glibc_trim() -> Callable[[], None]:
    """malloc_trim(3): whole free pages in the middle of the heap too, in 10 ms. Does nothing where libc is another."""
    trim = getattr(ctypes.CDLL(None), "malloc_trim", None)
    return lambda: None if trim is None else trim(0)


async def give_back_for_ever(clock: Clock, trim: Callable[[], None]) -> None:
    while True:
        await clock.sleep(EVERY_SECONDS)
        trim()
