"""One fault that two sources tell is one fault, counted once: the kernel log and NVML both tell an XID. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Final

from sparewheel.api.enums import FaultSource
from sparewheel.faults.classify import OpenFault, fold

SAME_EVENT_SECONDS: Final = 10.0
"""Two sources that tell the same code of the same device this close together mean the same event."""


def merge(faults: Sequence[OpenFault], new: OpenFault, *, is_state: bool = False) -> list[OpenFault]:
    """As ``fold``, for faults of any source.

    ``is_state``: it is no event but what holds now, so a row that stands already is not counted again. The kernel log's
    words stay, or come in place of another's: they say most.
    """
    known = next((fault for fault in faults if (fault.code, fault.device) == (new.code, new.device)), None)
    if known is None:
        return fold(faults, new)
    apart = abs((new.last_seen - known.last_seen).total_seconds())
    again = is_state or (known.source is not new.source and apart <= SAME_EVENT_SECONDS)
    folded = fold(faults, replace(new, count=0) if again else new)
    if FaultSource.KERNEL_LOG not in (known.source, new.source):
        return folded
    words = known if known.source is FaultSource.KERNEL_LOG else new
    return [
        replace(fault, source=words.source, message=words.message)
        if (fault.code, fault.device) == (new.code, new.device) and fault.source is not words.source
        else fault
        for fault in folded
    ]
