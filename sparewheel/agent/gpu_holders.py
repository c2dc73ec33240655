"""Which processes hold a GPU's device file open. One that cannot be looked at may hold it."""

from __future__ import annotations

import re
from pathlib import Path

from sparewheel.agent.devices import minors_by_pci

_ANY_GPU = re.compile(r"/dev/nvidia\d+")


def holders(host_root: Path, pci: str) -> list[str]:
    """``PID NAME`` of each. Without a known device file every GPU's counts. Raises OSError when /proc can't be read."""
    minor = minors_by_pci(host_root / "proc/driver/nvidia/gpus").get(pci)
    wanted = re.compile(rf"/dev/nvidia{minor}") if minor is not None else _ANY_GPU
    processes = [entry for entry in (host_root / "proc").iterdir() if entry.name.isdigit()]
    return sorted(f"{entry.name} {_name(entry)}" for entry in processes if _holds(entry, wanted))


def _holds(process: Path, wanted: re.Pattern[str]) -> bool:
    try:
        descriptors = list((process / "fd").iterdir())
    except (FileNotFoundError, ProcessLookupError):
        return False  # it has ended
    for descriptor in descriptors:
        try:
            if wanted.fullmatch(str(descriptor.readlink())):
                return True
        except (FileNotFoundError, ProcessLookupError):
            continue
    return False


def _name(process: Path) -> str:
    try:
        return (process / "comm").read_text("utf-8", "replace").strip()
    except OSError:
        return "?"
