"""NVIDIA's NVSwitch driver: SXids, by the class that the line prints; lines of detail after one are no new errors."""

from __future__ import annotations

import re
from typing import Final

from sparewheel.faults.findings import PCI, Finding, MalformedLineError, normalise_pci

PREFIX: Final = "nvidia-nvswitch"
_SXID = re.compile(
    rf"nvidia-nvswitch[0-9]*: SXid \((?:PCI:)?{PCI}\): (?P<code>[0-9]{{1,9}})(?:,\s*(?P<rest>.*))?\s*$", re.DOTALL
)
_SXID_ANY = re.compile(r"nvidia-nvswitch[0-9]*: SXid\b")
_DETAIL = re.compile(r"Severity\s+[0-9]+\s+Engine instance|Data\s*\{")
_CLASS = re.compile(r"(?P<word>Fatal|Non-?[Ff]atal)\b")


def read(text: str) -> Finding | None:
    """The error of this line, or None. Raises MalformedLineError."""
    match = _SXID.match(text)
    if match is None:
        if _SXID_ANY.match(text):
            raise MalformedLineError(f"SXid line that cannot be read: {text[:120]!r}")
        return None
    rest = match["rest"] or ""
    if _DETAIL.match(rest):
        return None
    word = _CLASS.match(rest)
    fatal = None if word is None else word["word"] == "Fatal"
    return Finding(f"SXID {int(match['code'])}", normalise_pci(match["pci"]), text, fatal)
