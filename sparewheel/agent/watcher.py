"""What the agent saw so far, from records, devices and processes. No network, time passed in."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

from sparewheel.agent.devices import GpuReading, GpuSource
from sparewheel.agent.kernel_log import KernelLog
from sparewheel.agent.processes import job_processes
from sparewheel.agent.report import Seen
from sparewheel.api.enums import Action, FaultSource, Severity
from sparewheel.api.names import CODE_GPU_MISSING
from sparewheel.faults.classify import OpenFault, fault_of, fold
from sparewheel.faults.kmsg import MalformedRecordError, parse_record
from sparewheel.faults.lines import DRILL_PREFIX, LineReader, MalformedLineError

log = logging.getLogger(__name__)


class Watcher:
    """Keeps ``seen`` up to date. ``allow_drills``: records that user space marked as a drill count."""

    def __init__(
        self,
        *,
        kernel_log: KernelLog,
        gpus: GpuSource,
        host_root: Path,
        boot_id: str,
        expected_gpus: int | None,
        overrides: Mapping[str, Action],
        allow_drills: bool,
    ) -> None:
        self._kernel_log = kernel_log
        self._gpus = gpus
        self._proc = host_root / "proc"
        self._overrides = overrides
        self._allow_drills = allow_drills
        self._reader = LineReader()
        self._drill_reader = LineReader()
        self._pinned = expected_gpus is not None
        self._index_by_pci: dict[str, int] = {}
        self.seen = Seen(boot_id=boot_id, expected_gpus=expected_gpus or 0)

    def resume(self, status: Mapping[str, Any]) -> None:
        """Go on from what an earlier agent of the same boot reported; a report of another boot says nothing."""
        if status.get("bootId") != self.seen.boot_id:
            return
        self.seen.faults = [_fault_from(row) for row in status.get("faults", [])]
        self.seen.malformed_lines = int(status.get("malformedLines", 0))
        self.seen.kernel_log_sequence = status.get("kernelLogSequence")
        if not self._pinned:
            self.seen.expected_gpus = int(status.get("gpus", {}).get("expected", 0))

    def read_kernel_log(self, now: datetime, since_boot_seconds: float) -> bool:
        """True when the faults changed. ``since_boot_seconds``: CLOCK_MONOTONIC, the log's own clock."""
        before = (list(self.seen.faults), self.seen.malformed_lines)
        for line in self._kernel_log.read_lines():
            self._take(line, now, since_boot_seconds)
        return before != (self.seen.faults, self.seen.malformed_lines)

    def _take(self, line: str, now: datetime, since_boot_seconds: float) -> None:
        if line.startswith(" "):
            return
        try:
            record = parse_record(line)
        except MalformedRecordError:
            self.seen.malformed_lines += 1
            return
        last = self.seen.kernel_log_sequence
        if last is not None and record.sequence <= last:
            return
        self.seen.kernel_log_sequence = record.sequence
        drill = not record.from_kernel and record.text.startswith(DRILL_PREFIX)
        if not record.from_kernel and not (drill and self._allow_drills):
            return
        reader = self._drill_reader if drill else self._reader
        try:
            finding = reader.read(record.text.removeprefix(DRILL_PREFIX))
        except MalformedLineError as error:
            self.seen.malformed_lines += 1
            log.warning("%s", error)
            return
        if finding is None:
            return
        fault = fault_of(
            finding,
            now=now - timedelta(seconds=max(0.0, since_boot_seconds - record.since_boot_us / 1e6)),
            overrides=self._overrides,
            gpu_index=self._index_by_pci.get(finding.pci),
            drill=drill,
        )
        if fault.action is not Action.IGNORE:
            self.seen.faults = fold(self.seen.faults, fault)

    def read_gpus(self, now: datetime) -> None:
        reading: GpuReading = self._gpus.read()
        self.seen.seen_gpus, self.seen.message = reading.seen, reading.message
        if reading.seen is None:
            return
        self._index_by_pci |= reading.index_by_pci
        if not self._pinned:
            self.seen.expected_gpus = max(self.seen.expected_gpus, reading.seen)
        if reading.seen < self.seen.expected_gpus and not _has(self.seen.faults, CODE_GPU_MISSING):
            missing = self.seen.expected_gpus - reading.seen
            self.seen.faults = fold(
                self.seen.faults,
                OpenFault(
                    code=CODE_GPU_MISSING,
                    device="",
                    action=self._overrides.get(CODE_GPU_MISSING, Action.REPLACE),
                    severity=Severity.CRITICAL,
                    source=FaultSource.DEVICE_COUNT,
                    first_seen=now,
                    last_seen=now,
                    message=f"{missing} of {self.seen.expected_gpus} GPUs are not seen any more",
                ),
            )

    def read_jobs(self, now: datetime) -> None:
        try:
            self.seen.jobs, self.seen.jobs_observed = job_processes(self._proc), now
        except OSError as error:
            log.warning("processes cannot be listed, jobs are unknown: %s", error)
            self.seen.jobs = None


def _has(faults: Sequence[OpenFault], code: str) -> bool:
    return any(fault.code == code for fault in faults)


def _fault_from(row: Mapping[str, Any]) -> OpenFault:
    return OpenFault(
        code=row["code"],
        device=row.get("device", ""),
        action=Action(row["action"]),
        severity=Severity(row["severity"]),
        source=FaultSource(row["source"]),
        first_seen=datetime.fromisoformat(row["firstSeen"]),
        last_seen=datetime.fromisoformat(row["lastSeen"]),
        count=int(row.get("count", 1)),
        message=row.get("message", ""),
        gpu_index=row.get("gpuIndex"),
        drill=bool(row.get("drill", False)),
    )
