"""What two readings of the GPUs say about faults: states that came, counters that grew. Pure.

States carry the codes under which the kernel log tells the same: a fault that both tell is one fault.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from sparewheel.agent.devices import Gpu
from sparewheel.api.names import CODE_ECC_UNCORRECTABLE, CODE_GPU_OFF_BUS
from sparewheel.faults.findings import Finding

NO_ACTION = 0


def by_pci(gpus: Sequence[Gpu]) -> dict[str, Gpu]:
    """A GPU without an address can't be told from another, and the count speaks for it."""
    return {gpu.pci: gpu for gpu in gpus if gpu.pci}


def state_findings(before: Mapping[str, Gpu], now: Mapping[str, Gpu]) -> list[Finding]:
    """States that hold now and didn't at the last reading; all that hold, where there was none."""
    found: list[Finding] = []
    for pci, gpu in now.items():
        old = before.get(pci) or Gpu(gpu.index)
        if gpu.lost and not old.lost:
            found.append(Finding(CODE_GPU_OFF_BUS, pci, "NVML: the GPU is lost", gpu_uuid=old.uuid))
        if gpu.recovery_action not in (None, NO_ACTION, old.recovery_action):
            text = f"NVML: the driver asks for recovery action {gpu.recovery_action}"
            found.append(Finding("XID 154", pci, text, recovery_code=gpu.recovery_action, gpu_uuid=gpu.uuid))
        if gpu.remap_failure and not old.remap_failure:
            found.append(Finding("XID 64", pci, "NVML: remapping a row has failed", gpu_uuid=gpu.uuid))
        if gpu.remap_pending and not old.remap_pending:
            found.append(Finding("XID 63", pci, "NVML: a row waits to be remapped at a reset", gpu_uuid=gpu.uuid))
    return found


def counter_findings(before: Mapping[str, Gpu], now: Mapping[str, Gpu]) -> list[Finding]:
    """Uncorrectable ECC errors since the last reading. The first reading of a GPU is what the next is compared with."""
    found: list[Finding] = []
    for pci, gpu in now.items():
        old = before.get(pci)
        if old is None:
            continue
        more = growth(old.uncorrectable_ecc, gpu.uncorrectable_ecc)
        if gpu.uncorrectable_ecc is None:
            more = growth(old.uncorrectable_ecc_ever, gpu.uncorrectable_ecc_ever)
        if more:
            ever = "" if gpu.uncorrectable_ecc_ever is None else f", {gpu.uncorrectable_ecc_ever} in its life"
            text = f"NVML: {more} more uncorrectable ECC errors{ever}"
            found.append(Finding(CODE_ECC_UNCORRECTABLE, pci, text, gpu_uuid=gpu.uuid))
    return found


def growth(before: int | None, now: int | None) -> int:
    """By how much a counter grew. One that is smaller than before began anew: what it shows came since."""
    if before is None or now is None:
        return 0
    return now - before if now >= before else now
