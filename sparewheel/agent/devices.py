"""How many GPUs the node has now, and which index has which PCI address. None means: could not be evaluated."""

from __future__ import annotations

import importlib
import re
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

from sparewheel.faults.lines import normalise_pci


@dataclass(frozen=True, slots=True)
class GpuReading:
    seen: int | None
    """None: could not be evaluated; never read as healthy."""
    index_by_pci: dict[str, int] = field(default_factory=dict[str, int])
    message: str = ""


class GpuSource(Protocol):
    def read(self) -> GpuReading: ...


class DeviceFiles:
    """Counts ``/dev/nvidiaN`` and reads the driver's own list in ``/proc/driver/nvidia/gpus`` for addresses."""

    def __init__(self, host_root: Path) -> None:
        self._dev = host_root / "dev"
        self._gpus = host_root / "proc/driver/nvidia/gpus"

    def read(self) -> GpuReading:
        try:
            seen = sum(1 for entry in self._dev.iterdir() if re.fullmatch(r"nvidia\d+", entry.name))
            return GpuReading(seen, self._addresses())
        except OSError as error:
            return GpuReading(None, message=f"the device files cannot be counted: {error}")

    def _addresses(self) -> dict[str, int]:
        addresses: dict[str, int] = {}
        if self._gpus.is_dir():
            for folder in self._gpus.iterdir():
                minor = re.search(r"Device Minor:\s*(\d+)", (folder / "information").read_text("utf-8", "replace"))
                if minor:
                    addresses[normalise_pci(folder.name)] = int(minor[1])
        return addresses


class Nvml:
    """Asks NVIDIA's management library. One that cannot start is "not evaluated", not "healthy"."""

    def __init__(self) -> None:
        self._nvml: Any = importlib.import_module("pynvml")

    def read(self) -> GpuReading:
        nvml = self._nvml
        try:
            nvml.nvmlInit()
            try:
                addresses: dict[str, int] = {}
                count = int(nvml.nvmlDeviceGetCount())
                for index in range(count):
                    handle = nvml.nvmlDeviceGetHandleByIndex(index)
                    bus_id = nvml.nvmlDeviceGetPciInfo(handle).busId
                    text = bus_id.decode() if isinstance(bus_id, bytes) else str(bus_id)
                    addresses[normalise_pci(text)] = index
                return GpuReading(count, addresses)
            finally:
                nvml.nvmlShutdown()
        except nvml.NVMLError as error:
            return GpuReading(None, message=f"NVML cannot be asked: {error}")


def gpu_source(name: str, host_root: Path) -> GpuSource:
    """``nvml`` or ``device-files``."""
    sources: dict[str, type[Nvml] | None] = {"nvml": Nvml, "device-files": None}
    if name not in sources:
        raise ValueError(f"--gpu-source {name!r} is not known; use one of {', '.join(sources)}")
    return Nvml() if name == "nvml" else DeviceFiles(host_root)
