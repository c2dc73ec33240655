"""Forms in which drivers tell a fault in the kernel log, turned into findings. Pure; state spans three lines."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final

from sparewheel.faults import amdgpu, mlx5, nvrm, nvswitch
from sparewheel.faults.findings import Finding, MalformedLineError, normalise_pci

__all__ = ["DRILL_PREFIX", "DRIVER_PREFIXES", "Finding", "LineReader", "MalformedLineError", "normalise_pci"]

DRILL_PREFIX: Final = "sparewheel-drill: "
"""Text of a record that somebody wrote on purpose through /dev/kmsg; such a record is never of kernel origin."""

DRIVER_PREFIXES: Final = (nvrm.PREFIX, nvswitch.PREFIX, mlx5.PREFIX, mlx5.WATCHDOG_PREFIX, amdgpu.PREFIX)
"""Every line that can tell a fault begins with one of these: a text that holds one further on was not the driver's."""


@dataclass(slots=True)
class LineReader:
    """Reads text lines one after the other; lines of other drivers may stand in between."""

    _nvrm: nvrm.NvrmReader = field(default_factory=nvrm.NvrmReader)

    def read(self, text: str) -> Finding | None:
        """The finding that this line completes, or None. Raises MalformedLineError."""
        if not text.startswith(DRIVER_PREFIXES):
            return None
        if text.startswith(nvrm.PREFIX):
            return self._nvrm.read(text)
        if text.startswith(nvswitch.PREFIX):
            return nvswitch.read(text)
        if text.startswith(amdgpu.PREFIX):
            return amdgpu.read(text)
        return mlx5.read(text)
