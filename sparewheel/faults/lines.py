"""Forms in which NVIDIA's driver tells a fault in the kernel log, turned into findings. Pure; state spans three lines.

Forms follow NVIDIA's XID documentation and samples from drivers R470 to R610: with and without ``PCI:``, function
suffix, pid and name (which may hold colons and brackets), text after the code or none.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

DRILL_PREFIX = "sparewheel-drill: "
"""Text of a record that somebody wrote on purpose through /dev/kmsg; such a record is never of kernel origin."""

_PCI = r"(?:PCI:)?(?P<pci>[0-9a-fA-F]{4,8}:[0-9a-fA-F]{2}:[0-9a-fA-F]{2})(?:\.[0-7])?"
_XID = re.compile(rf"NVRM: Xid \({_PCI}\): (?P<code>[0-9]{{1,9}})(?:,\s*(?P<rest>.*))?\s*$")
_XID_ANY = re.compile(r"NVRM: Xid\b")
_OFF_BUS = re.compile(rf"NVRM: GPU {_PCI}: GPU has fallen off the bus")
_OFF_BUS_FIRST = re.compile(rf"NVRM: The NVIDIA GPU {_PCI}\s*$")
_OFF_BUS_MIDDLE = re.compile(r"NVRM: \(PCI ID: [0-9a-fA-F]{4}:[0-9a-fA-F]{4}\) installed in this system has\s*$")
_OFF_BUS_LAST = re.compile(r"NVRM: fallen off the bus and is not responding to commands")
_FATAL = re.compile(r"(?<![A-Za-z])Fatal(?![A-Za-z])")
_RECOVERY = re.compile(r"to (?P<code>0x[0-9a-fA-F]{1,8})(?![0-9a-fA-F])")


def normalise_pci(address: str) -> str:
    """``PCI:0008:06:00``, ``00000008:06:00.0`` and ``0008:06:00`` are one device: domain, bus, device, no function."""
    domain, bus, device = address.removeprefix("PCI:").partition(".")[0].lower().split(":")
    return f"{int(domain, 16):04x}:{bus}:{device}"


@dataclass(frozen=True, slots=True)
class Finding:
    """One fault line. ``xid`` is None for a fall off the bus that came without an XID."""

    xid: int | None
    pci: str
    text: str
    fatal: bool = False
    recovery_code: int | None = None


class MalformedLineError(ValueError):
    """The line claims to be an XID but cannot be read: it is counted, never acted on."""


@dataclass(slots=True)
class LineReader:
    """Reads text lines one after the other; lines of other drivers may stand in between."""

    _pending_pci: str | None = None
    _pending_middle: bool = False

    def read(self, text: str) -> Finding | None:
        """The finding that this line completes, or None. Raises MalformedLineError."""
        if "NVRM" not in text:
            return None
        if match := _XID.search(text):
            return _xid_finding(match, text)
        if _XID_ANY.search(text):
            raise MalformedLineError(f"XID line that cannot be read: {text[:120]!r}")
        if match := _OFF_BUS.search(text):
            return Finding(None, normalise_pci(match["pci"]), text)
        return self._read_three_lines(text)

    def _read_three_lines(self, text: str) -> Finding | None:
        if match := _OFF_BUS_FIRST.search(text):
            self._pending_pci, self._pending_middle = normalise_pci(match["pci"]), False
        elif self._pending_pci and _OFF_BUS_MIDDLE.search(text):
            self._pending_middle = True
        elif self._pending_pci and self._pending_middle and _OFF_BUS_LAST.search(text):
            pci, self._pending_pci, self._pending_middle = self._pending_pci, None, False
            return Finding(None, pci, "GPU has fallen off the bus (three-line form)")
        return None


def _xid_finding(match: re.Match[str], text: str) -> Finding:
    code, rest = int(match["code"]), match["rest"] or ""
    recovery: int | None = None
    if code == 154:
        found = _RECOVERY.search(rest)
        if found is None:
            raise MalformedLineError(f"XID 154 without a recovery code: {text[:120]!r}")
        recovery = int(found["code"], 16)
    return Finding(code, normalise_pci(match["pci"]), text, fatal=bool(_FATAL.search(rest)), recovery_code=recovery)
