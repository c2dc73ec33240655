"""NVIDIA's GPU driver (``NVRM:``): XIDs, falls off the bus in one and in three lines, broken unified memory.

Forms follow NVIDIA's XID documentation and samples from drivers R470 to R610: with and without ``PCI:``, function
suffix, MIG instance, pid and name (which may hold colons and brackets), text after the code or none. The fault of an
instance is one of its GPU; the text names the instance.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from sparewheel.api.names import CODE_GPU_OFF_BUS, CODE_UVM_FATAL
from sparewheel.faults.catalogue import RECOVERY_ACTIONS
from sparewheel.faults.findings import PCI, Finding, MalformedLineError, normalise_pci

PREFIX: Final = "NVRM: "
MAX_PENDING: Final = 64
"""Falls off the bus that wait for their second and third line; more GPUs no host has."""
MAX_UUIDS: Final = 1024

_PCI = f"(?:PCI:)?{PCI}"
_MIG = r"(?: GPU-I:[0-9]{1,9}(?: GPU-CI:[0-9]{1,9})?)?"
_XID = re.compile(rf"NVRM: Xid \({_PCI}{_MIG}\): (?P<code>[0-9]{{1,9}})(?:,\s*(?P<rest>.*))?\s*$", re.DOTALL)
_XID_ANY = re.compile(r"NVRM: Xid\b")
_OFF_BUS = re.compile(rf"NVRM: GPU (?:at )?{_PCI}: GPU has fallen off the bus")
_OFF_BUS_FIRST = re.compile(rf"NVRM: The NVIDIA GPU {_PCI}\s*$")
_OFF_BUS_MIDDLE = re.compile(r"NVRM: \(PCI ID: [0-9a-fA-F]{4}:[0-9a-fA-F]{4}\) installed in this system has\s*$")
_OFF_BUS_LAST = re.compile(r"NVRM: fallen off the bus and is not responding to commands")
_UUID = re.compile(rf"NVRM: GPU at {_PCI}: (?P<uuid>GPU-[0-9a-fA-F-]{{8,64}})\s*$")
_UVM = re.compile(
    r"NVRM: nvGpuOpsReportFatalError: uvm encountered global fatal error 0x[0-9a-fA-F]+, requiring os reboot"
)
_UNIT_CLASS = re.compile(r"(?:^|\s)[A-Z][A-Z0-9_]*\s+(?P<word>Fatal|Non-?[Ff]atal)\b")
"""NVLink 5: a unit's event in capitals, then its class."""
_RECOVERY = re.compile(r"\bto\s+(?P<code>0x[0-9a-fA-F]{1,8}(?![0-9a-fA-F]))?\s*(?:\(?(?P<text>[A-Za-z0-9 ]+))?")
_RECOVERY_TEXTS: Mapping[str, int] = {
    "none": 0x0,
    "gpu reset required": 0x1,
    "pf flr": 0x1,
    "node reboot required": 0x2,
    "os reboot": 0x2,
    "drain p2p": 0x3,
    "drain and reset": 0x4,
}


@dataclass(slots=True)
class NvrmReader:
    """Reads the driver's lines one after the other; lines of other drivers and GPUs may stand in between."""

    _firsts: list[str] = field(default_factory=list[str])
    """GPUs whose first of three lines was read, oldest first: only that line names the GPU."""
    _middles: list[str] = field(default_factory=list[str])
    _uuids: dict[str, str] = field(default_factory=dict[str, str])

    def read(self, text: str) -> Finding | None:
        """The finding that this line completes, or None. Raises MalformedLineError."""
        if match := _XID.match(text):
            return self._xid(match, text)
        if _XID_ANY.match(text):
            raise MalformedLineError(f"XID line that cannot be read: {text[:120]!r}")
        if match := _OFF_BUS.match(text):
            return self._finding(CODE_GPU_OFF_BUS, normalise_pci(match["pci"]), text)
        if match := _UUID.match(text):
            if len(self._uuids) < MAX_UUIDS:
                self._uuids[normalise_pci(match["pci"])] = match["uuid"]
            return None
        if _UVM.match(text):
            return Finding(CODE_UVM_FATAL, "", text)
        return self._three_lines(text)

    def _three_lines(self, text: str) -> Finding | None:
        if match := _OFF_BUS_FIRST.match(text):
            self._firsts = [*self._firsts, normalise_pci(match["pci"])][-MAX_PENDING:]
        elif self._firsts and _OFF_BUS_MIDDLE.match(text):
            self._middles = [*self._middles, self._firsts.pop(0)][-MAX_PENDING:]
        elif self._middles and _OFF_BUS_LAST.match(text):
            return self._finding(CODE_GPU_OFF_BUS, self._middles.pop(0), "fallen off the bus (three lines)")
        return None

    def _xid(self, match: re.Match[str], text: str) -> Finding:
        code, rest = int(match["code"]), match["rest"] or ""
        recovery = None
        if code == 154:
            recovery = _recovery_code(rest)
            if recovery is None:
                raise MalformedLineError(f"XID 154 without a recovery action: {text[:120]!r}")
        word = _UNIT_CLASS.search(rest) if 144 <= code <= 150 else None
        fatal = None if word is None else word["word"] == "Fatal"
        return self._finding(f"XID {code}", normalise_pci(match["pci"]), text, fatal, recovery)

    def _finding(
        self, code: str, pci: str, text: str, fatal: bool | None = None, recovery: int | None = None
    ) -> Finding:
        return Finding(code, pci, text, fatal, recovery, self._uuids.get(pci, ""))


def _recovery_code(rest: str) -> int | None:
    """The new action by its hex code; by its text where there is no code, or one that no driver we know prints."""
    for match in _RECOVERY.finditer(rest):
        code = int(match["code"], 16) if match["code"] else None
        by_text = _RECOVERY_TEXTS.get((match["text"] or "").strip().lower())
        if code in RECOVERY_ACTIONS:
            return code
        if by_text is not None:
            return by_text
        if code is not None:
            return code
    return None
