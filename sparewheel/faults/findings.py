"""What one line of a kernel log says about a device, before anybody judges it."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

PCI = r"(?P<pci>[0-9a-fA-F]{4,8}:[0-9a-fA-F]{2}:[0-9a-fA-F]{2})(?:\.[0-7])?"
"""A PCI address as drivers print it; the function is not part of the device's name."""


class MalformedLineError(ValueError):
    """The line claims to be a fault but cannot be read: it is counted, never acted on."""


@dataclass(frozen=True, slots=True)
class Finding:
    """One fault, by the line that completes it."""

    code: str
    """``XID 79``, ``SXID 20034``, ``GPU_OFF_BUS``, ``MLX5_FATAL``, ..., as in the catalogue."""
    device: str
    """PCI address in the form ``0000:17:00``; empty where the line names no device."""
    text: str
    fatal: bool | None = None
    """The class that the line prints; None where it prints none."""
    recovery_code: int | None = None
    """XID 154: the recovery action's code."""
    gpu_uuid: str = ""
    """The GPU's UUID, where the driver told it earlier in the log."""


@lru_cache(maxsize=1024)
def normalise_pci(address: str) -> str:
    """``PCI:0008:06:00``, ``00000008:06:00.0`` and ``0008:06:00`` are one device: domain, bus, device, no function."""
    domain, bus, device = address.removeprefix("PCI:").partition(".")[0].lower().split(":")
    return f"{int(domain, 16):04x}:{bus}:{device}"
