"""AMD's GPU driver: counts of RAS errors. "no uncorrectable hardware errors" and a count of 0 are the all-clear."""

from __future__ import annotations

import re
from typing import Final

from sparewheel.api.names import CODE_AMD_RAS_CE, CODE_AMD_RAS_UE
from sparewheel.faults.findings import PCI, Finding, normalise_pci

PREFIX: Final = "amdgpu "
_ERRORS = re.compile(
    rf"amdgpu {PCI}: (?:amdgpu: )?(?:.*[\s,}}])?(?P<count>[0-9]{{1,18}}) (?:new )?"
    r"(?P<kind>un)?correctable hardware errors detected in (?!total\b)"
)
"""The count stands right before the words: the negated text has none. "in total" repeats an earlier count."""


def read(text: str) -> Finding | None:
    """The errors that this line counts, or None."""
    match = _ERRORS.match(text)
    if match is None or int(match["count"]) == 0:
        return None
    return Finding(CODE_AMD_RAS_UE if match["kind"] else CODE_AMD_RAS_CE, normalise_pci(match["pci"]), text)
