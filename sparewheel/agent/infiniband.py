"""InfiniBand and RoCE adapters as the kernel shows them in /sys/class/infiniband."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final, Protocol

from sparewheel.faults.findings import normalise_pci

CLASS: Final = "sys/class/infiniband"
COUNTERS: Final = (
    "counters/link_downed",
    "counters/symbol_error",
    "counters/excessive_buffer_overrun_errors",
    "counters/local_link_integrity_errors",
    "hw_counters/rnr_nak_retry_err",
)
STATE_DOWN: Final = 1
STATE_ACTIVE: Final = 4
PHYS_DISABLED: Final = 3
ETHERNET: Final = "Ethernet"


@dataclass(frozen=True, slots=True)
class Port:
    """``state`` and ``phys_state`` by the numbers of the InfiniBand specification, as sysfs prints them."""

    state: int
    phys_state: int
    link_layer: str = "InfiniBand"
    counters: Mapping[str, int] = field(default_factory=dict[str, int])
    """By short name; one that this adapter doesn't have is missing."""


@dataclass(frozen=True, slots=True)
class Hca:
    name: str
    device: str
    """PCI address in the form ``0000:0c:00``, or the name where the kernel shows none."""
    ports: Mapping[int, Port]


@dataclass(frozen=True, slots=True)
class HcaReading:
    """``hcas`` None: could not be evaluated; never read as healthy."""

    hcas: tuple[Hca, ...] | None
    message: str = ""


class HcaSource(Protocol):
    def read(self) -> HcaReading: ...


@dataclass(frozen=True, slots=True)
class Adapters:
    """Where the adapters are looked for. ``expected`` None: the most seen in this boot counts."""

    source: HcaSource
    expected: int | None = None


class Sysfs:
    """``root``: the host's root. Where the class is missing no driver is loaded, and there is no adapter."""

    def __init__(self, root: Path) -> None:
        self._class = root / CLASS

    def read(self) -> HcaReading:
        try:
            names = sorted(entry.name for entry in self._class.iterdir())
        except FileNotFoundError:
            return HcaReading(())
        except OSError as error:
            return HcaReading(None, f"the InfiniBand adapters cannot be listed: {error}")
        found: list[Hca] = []
        for name in names:
            try:
                found.append(_hca(self._class / name))
            except (OSError, ValueError) as error:
                if (self._class / name).exists():  # else it went while we looked, and is told as missing
                    return HcaReading(None, f"the InfiniBand adapter {name} cannot be read: {error}")
        return HcaReading(tuple(found))


def _hca(folder: Path) -> Hca:
    link = (folder / "device").resolve().name if (folder / "device").exists() else ""
    device = normalise_pci(link) if link.count(":") == 2 else folder.name
    ports = {int(port.name): _port(port) for port in sorted((folder / "ports").iterdir())}
    return Hca(folder.name, device, ports)


def _port(folder: Path) -> Port:
    counters: dict[str, int] = {}
    for path in COUNTERS:
        text = _text(folder / path)
        if text.isdigit():
            counters[path.rpartition("/")[2]] = int(text)
    return Port(
        state=_number(folder / "state"),
        phys_state=_number(folder / "phys_state"),
        link_layer=_text(folder / "link_layer") or "InfiniBand",
        counters=counters,
    )


def _number(path: Path) -> int:
    """``4: ACTIVE`` is 4."""
    return int(path.read_text("ascii", "replace").partition(":")[0])


def _text(path: Path) -> str:
    """Empty where this adapter doesn't have it, or the kernel won't say (EINVAL)."""
    try:
        return path.read_text("ascii", "replace").strip()
    except OSError:
        return ""
