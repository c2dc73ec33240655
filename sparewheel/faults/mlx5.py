"""Mellanox's adapter driver: what says that the adapter is lost, what is worth a note, what is noise.

Lost is an adapter that the driver itself gives up (Linux's ``mlx5/core/health.c``, ``cmd.c``): a fatal sensor, firmware
that doesn't answer, a recovery that failed. One that begins or succeeds tells nothing more. A failed ACCESS_REG is
noise: exporters that ask for registers they may not read cause it by the thousand.
"""

from __future__ import annotations

import re
from typing import Final

from sparewheel.api.names import CODE_MLX5_FATAL, CODE_MLX5_WARNING
from sparewheel.faults.findings import PCI, Finding, normalise_pci

PREFIX: Final = "mlx5_core "
WATCHDOG_PREFIX: Final = "NETDEV WATCHDOG: "
_DEVICE = re.compile(rf"mlx5_core {PCI}\b")
_FATAL = re.compile(
    r"timeout\. Will cause a leak of a command resource"
    r"|device's health compromised - reached miss count"
    r"|synd 0x0*8\b|unrecoverable hardware error"
    r"|Fatal error [0-9]+ detected|PCI slot is unavailable|NIC IFC still [0-9]+ after"
    r"|health recovery flow aborted|health recovery failed|Driver is in error state\. Unloading"
)
_WARNING = re.compile(
    r"insufficient power|[Hh]igh [Tt]emperature|[Cc]able unplugged|NETDEV WATCHDOG|queue [0-9]+ timed out"
)
_WATCHDOG = re.compile(r"NETDEV WATCHDOG: [^\s(]+ \(mlx5_core\): ")


def read(text: str) -> Finding | None:
    """The fault of this line, or None."""
    match = _DEVICE.match(text)
    if match is None:
        return Finding(CODE_MLX5_WARNING, "", text) if _WATCHDOG.match(text) else None
    code = CODE_MLX5_FATAL if _FATAL.search(text) else CODE_MLX5_WARNING if _WARNING.search(text) else None
    return None if code is None else Finding(code, normalise_pci(match["pci"]), text)
