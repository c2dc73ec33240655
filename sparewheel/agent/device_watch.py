"""Looks at the node's devices and turns what it finds into faults: GPUs by count, state, events; adapters by link."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from datetime import datetime

from sparewheel.agent.devices import Gpu, GpuReading, GpuSource
from sparewheel.agent.gpu_changes import by_pci, counter_findings, state_findings
from sparewheel.agent.infiniband import Adapters
from sparewheel.agent.link_changes import LinkWatch
from sparewheel.agent.report import Seen
from sparewheel.api.enums import Action, FaultSource
from sparewheel.api.names import CODE_GPU_MISSING, CODE_HCA_MISSING
from sparewheel.faults.findings import Finding
from sparewheel.faults.judge import Judge
from sparewheel.faults.sources import merge

XID_RECOVERY_ACTION = 154
"""Its event carries no code; the GPU's state does."""


class DeviceWatch:
    """Writes into ``seen``. ``judge``: the one that judges the kernel log, so that both mean one fault.

    ``pinned_gpus``: the stack says how many GPUs the node must have; else the most seen in this boot counts.
    """

    def __init__(
        self,
        seen: Seen,
        judge: Judge,
        gpus: GpuSource,
        adapters: Adapters | None = None,
        *,
        pinned_gpus: bool = False,
    ) -> None:
        self.index_by_pci: dict[str, int] = {}
        self._seen = seen
        self._judge = judge
        self._gpus = gpus
        self._adapters = adapters
        self._pinned_gpus = pinned_gpus
        self._before: dict[str, Gpu] = {}
        self._links = LinkWatch()

    def read(self, now: datetime, now_seconds: float) -> None:
        """``now_seconds``: a clock that never goes back."""
        messages = [self._read_gpus(now), self._read_hcas(now, now_seconds), self._seen.kernel_log_error]
        self._seen.message = "; ".join(text for text in messages if text)

    def read_events(self, now: datetime) -> None:
        """XIDs that the management library tells as they come."""
        for xid, pci in self._gpus.xids():
            if xid != XID_RECOVERY_ACTION:
                self._found([Finding(f"XID {xid}", pci, "NVML: critical XID")], now, FaultSource.NVML)

    def forget(self, pci: str) -> None:
        """A GPU was reset: its state is looked at as if for the first time."""
        self._before.pop(pci, None)

    def _read_gpus(self, now: datetime) -> str:
        reading = self._gpus.read()
        seen = self._seen
        seen.seen_gpus = reading.seen
        if reading.seen is None:
            return reading.message
        self.index_by_pci |= reading.index_by_pci
        if not self._pinned_gpus:
            seen.expected_gpus = max(seen.expected_gpus, reading.seen)
        here = by_pci(reading.gpus)
        self._found(state_findings(self._before, here), now, FaultSource.NVML, is_state=True)
        self._found(counter_findings(self._before, here), now, FaultSource.NVML)
        if reading.seen < seen.expected_gpus:
            self._missing(CODE_GPU_MISSING, self._gpus_missing(reading), now)
        self._before |= here
        return reading.message

    def _gpus_missing(self, reading: GpuReading) -> str:
        missing = self._seen.expected_gpus - reading.seen if reading.seen is not None else 0
        gone = sorted(set(self.index_by_pci) - set(reading.index_by_pci))
        known = [self._before.get(pci, Gpu(0)) for pci in gone]
        names = [" ".join(filter(None, (pci, gpu.uuid, gpu.serial))) for pci, gpu in zip(gone, known, strict=True)]
        which = f": {', '.join(names)}" if names else ""
        return f"{missing} of {self._seen.expected_gpus} GPUs are not seen any more{which}"

    def _read_hcas(self, now: datetime, now_seconds: float) -> str:
        seen = self._seen
        if self._adapters is None:
            return ""
        reading = self._adapters.source.read()
        seen.seen_hcas = None if reading.hcas is None else len(reading.hcas)
        if reading.hcas is None or seen.seen_hcas is None:
            return reading.message
        if self._adapters.expected is None:
            seen.expected_hcas = max(seen.expected_hcas, seen.seen_hcas)
        self._found(self._links.look(reading.hcas, now_seconds), now, FaultSource.INFINIBAND)
        if seen.seen_hcas < seen.expected_hcas and not self._has(CODE_HCA_MISSING):
            gone = seen.expected_hcas - seen.seen_hcas
            self._missing(CODE_HCA_MISSING, f"{gone} of {seen.expected_hcas} adapters are not seen", now)
        return reading.message

    def _missing(self, code: str, text: str, now: datetime) -> None:
        if not self._has(code):
            self._found([Finding(code, "", text)], now, FaultSource.DEVICE_COUNT)

    def _has(self, code: str) -> bool:
        return any(fault.code == code for fault in self._seen.faults)

    def _found(
        self, findings: Iterable[Finding], now: datetime, source: FaultSource, *, is_state: bool = False
    ) -> None:
        for finding in findings:
            verdict = self._judge.judge(finding, now, gpu_index=self.index_by_pci.get(finding.device))
            if verdict.fault.action is not Action.IGNORE:
                fault = replace(verdict.fault, source=source)
                self._seen.faults = merge(self._seen.faults, fault, is_state=is_state)
