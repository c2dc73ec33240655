"""Ends tasks of ours without losing a cancellation that comes from outside meanwhile."""

from __future__ import annotations

import asyncio
from typing import Any


async def ended(*tasks: asyncio.Future[Any]) -> None:
    """Cancel the tasks and return once they are over, however they ended.

    Awaiting a cancelled task and suppressing its CancelledError would suppress one that was meant for the caller too,
    and the caller would go on for ever.
    """
    for task in tasks:
        task.cancel()
    if tasks:
        await asyncio.wait(tasks)
    for task in tasks:
        if not task.cancelled():
            task.exception()  # it is nobody's business any more
