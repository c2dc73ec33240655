"""The GPUs that the node has now, by whom they are counted. None means: could not be evaluated."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

from sparewheel.faults.findings import normalise_pci


@dataclass(frozen=True, slots=True)
class Gpu:
    """One GPU as the management library tells it. None: this GPU or driver doesn't tell it."""

    index: int
    pci: str = ""
    """Address in the form ``0000:17:00``; empty where the GPU was lost before it was ever seen."""
    uuid: str = ""
    serial: str = ""
    lost: bool = False
    """The driver says that it has fallen off the bus."""
    recovery_action: int | None = None
    """What the driver asks for, by the codes of XID 154."""
    remap_pending: bool | None = None
    remap_failure: bool | None = None
    uncorrectable_ecc: int | None = None
    """Errors since the driver was loaded."""
    uncorrectable_ecc_ever: int | None = None


@dataclass(frozen=True, slots=True)
class GpuReading:
    seen: int | None
    """None: could not be evaluated; never read as healthy."""
    index_by_pci: dict[str, int] = field(default_factory=dict[str, int])
    message: str = ""
    gpus: tuple[Gpu, ...] = ()


class GpuSource(Protocol):
    def read(self) -> GpuReading: ...

    def xids(self) -> list[tuple[int, str]]:
        """``(XID, PCI address)`` of each event since the last call; empty where the source has no events."""
        ...


class DeviceFiles:
    """Counts ``/dev/nvidiaN`` and reads the driver's own list in ``/proc/driver/nvidia/gpus`` for addresses."""

    def __init__(self, host_root: Path) -> None:
        self._dev = host_root / "dev"
        self._gpus = host_root / "proc/driver/nvidia/gpus"

    def read(self) -> GpuReading:
        try:
            seen = sum(1 for entry in self._dev.iterdir() if re.fullmatch(r"nvidia\d+", entry.name))
            return GpuReading(seen, minors_by_pci(self._gpus))
        except OSError as error:
            return GpuReading(None, message=f"the device files cannot be counted: {error}")

    def xids(self) -> list[tuple[int, str]]:
        return []


def minors_by_pci(driver_gpus: Path) -> dict[str, int]:
    """``{PCI address: N of /dev/nvidiaN}`` from the driver's own list. Raises OSError."""
    addresses: dict[str, int] = {}
    if driver_gpus.is_dir():
        for folder in driver_gpus.iterdir():
            minor = re.search(r"Device Minor:\s*(\d+)", (folder / "information").read_text("utf-8", "replace"))
            if minor:
                addresses[normalise_pci(folder.name)] = int(minor[1])
    return addresses
