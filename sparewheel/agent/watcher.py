"""What the agent saw so far, from records, devices and processes. No network, time passed in."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from contextlib import suppress
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

from sparewheel.agent.device_watch import DeviceWatch
from sparewheel.agent.devices import GpuSource
from sparewheel.agent.infiniband import Adapters
from sparewheel.agent.kernel_log import KernelLog
from sparewheel.agent.processes import job_processes
from sparewheel.agent.report import Seen
from sparewheel.api.enums import Action, FaultSource, Severity
from sparewheel.faults.classify import RANKS, OpenFault, Sighting
from sparewheel.faults.judge import Judge
from sparewheel.faults.kmsg import MalformedRecordError, parse_record
from sparewheel.faults.lines import DRILL_PREFIX, Finding, LineReader, MalformedLineError
from sparewheel.faults.sources import merge

log = logging.getLogger(__name__)


CHUNKS_A_TURN = 8
"""Chunks of the kernel log read in one turn: in a flood too, a heartbeat is never late for more than a second."""

JOBS_LEFT_KEPT = timedelta(seconds=30)
"""How long a job without processes stays in the report, as long as a crash may come before its fault."""


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
        adapters: Adapters | None = None,
    ) -> None:
        self._kernel_log = kernel_log
        self._proc = host_root / "proc"
        self._allow_drills = allow_drills
        self._streams = {drill: (LineReader(), Judge(overrides)) for drill in (False, True)}  # a drill hides no fault
        self._expected_gpus, self._adapters = expected_gpus, adapters
        self._alive_at: dict[int, datetime] = {}
        self._pids: frozenset[str] = frozenset()
        self.seen = Seen(
            boot_id=boot_id,
            expected_gpus=expected_gpus or 0,
            expected_hcas=(adapters.expected or 0) if adapters is not None else 0,
        )
        judge = self._streams[False][1]
        self._devices = DeviceWatch(self.seen, judge, gpus, adapters, pinned_gpus=expected_gpus is not None)

    def resume(self, status: Mapping[str, Any]) -> None:
        """Go on from what an earlier agent of the same boot reported; a report of another boot says nothing."""
        if status.get("bootId") != self.seen.boot_id:
            return
        self.seen.faults = [fault for row in status.get("faults", []) if (fault := _fault_from(row)) is not None]
        for drill, (_, judge) in self._streams.items():
            judge.resume([fault for fault in self.seen.faults if fault.drill is drill])
        self.seen.malformed_lines = int(status.get("malformedLines", 0))
        self.seen.kernel_log_sequence = status.get("kernelLogSequence")
        if self._expected_gpus is None:
            self.seen.expected_gpus = int(status.get("gpus", {}).get("expected", 0))
        if self._adapters is None or self._adapters.expected is None:
            self.seen.expected_hcas = int(status.get("hcas", {}).get("expected", 0))

    def _open(self) -> set[tuple[str, str, Action]]:
        return {(fault.code, fault.device, fault.action) for fault in self.seen.faults}

    def read_kernel_log(self, now: datetime, since_boot_seconds: float) -> bool:
        """True when faults came or ask for more than before; a repeat waits for the heartbeat.

        ``since_boot_seconds``: CLOCK_MONOTONIC, the log's own clock.
        """
        before = self._open()
        try:
            for _ in range(CHUNKS_A_TURN):
                lines = self._kernel_log.read_lines()
                for line in lines:
                    self._take(line, now, since_boot_seconds)
                if not lines:
                    break
            self.seen.kernel_log_error = ""
        except OSError as error:
            self.seen.kernel_log_error = f"the kernel log cannot be read: {error}"
        return before != self._open()

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
        for text in record.texts:
            finding = self._find(text.removeprefix(DRILL_PREFIX), drill=drill)
            if finding is not None:
                since = max(0.0, since_boot_seconds - record.since_boot_us / 1e6)
                self._judge(finding, now - timedelta(seconds=since), drill=drill)

    def _find(self, text: str, *, drill: bool) -> Finding | None:
        """Counts a line that claims a fault and cannot be read."""
        reader, _ = self._streams[drill]
        try:
            return reader.read(text)
        except MalformedLineError as error:
            self.seen.malformed_lines += 1
            if self.seen.malformed_lines.bit_count() == 1:  # the 1st, 2nd, 4th, 8th: a flood fills no log
                log.warning("%s (%d so far)", error, self.seen.malformed_lines)
            return None

    def _judge(self, finding: Finding, when: datetime, *, drill: bool) -> None:
        _, judge = self._streams[drill]
        index, job = self._devices.index_by_pci.get(finding.device), self._only_job()
        verdict = judge.judge(finding, when, gpu_index=index, drill=drill, job_id=job)
        if verdict.fault.action is not Action.IGNORE:
            self.seen.faults = merge(self.seen.faults, verdict.fault)

    def _only_job(self) -> int | None:
        jobs = self.seen.jobs or {}
        return next(iter(jobs)) if len(jobs) == 1 else None

    def read_devices(self, now: datetime, now_seconds: float) -> None:
        """``now_seconds``: a clock that never goes back."""
        self._devices.read(now, now_seconds)

    def gpu_was_reset(self, pci: str, when: datetime) -> None:
        """What a reset heals is taken back. Safe to repeat: what came since stays, and what asks for more does too."""
        healed = {
            (fault.code, fault.device)
            for fault in self.seen.faults
            if fault.device == pci and fault.last_seen <= when and RANKS[fault.action] <= RANKS[Action.RESET_GPU]
        }
        if healed:
            self.seen.faults = [fault for fault in self.seen.faults if (fault.code, fault.device) not in healed]
            self._devices.forget(pci)

    def read_events(self, now: datetime) -> bool:
        """What the devices tell by themselves. True as ``read_kernel_log``."""
        before = self._open()
        self._devices.read_events(now)
        return before != self._open()

    def read_jobs(self, now: datetime) -> None:
        try:
            found = job_processes(self._proc)
        except OSError as error:
            log.warning("processes cannot be listed, jobs are unknown: %s", error)
            self.seen.jobs = None
            return
        self.seen.jobs, self.seen.jobs_observed, self._pids = found.jobs, now, found.pids
        self._remember_jobs(now)

    def glance_at_jobs(self, now: datetime) -> None:
        """Processes that came since the last whole look: a job may come and go between two of those."""
        if self.seen.jobs is None:
            return
        with suppress(OSError):  # the whole look says so
            self.seen.jobs |= job_processes(self._proc, self._pids).jobs
            self._remember_jobs(now)

    def _remember_jobs(self, now: datetime) -> None:
        jobs = self.seen.jobs or {}
        self._alive_at |= dict.fromkeys(jobs, now)
        self._alive_at = {job: at for job, at in self._alive_at.items() if now - at <= JOBS_LEFT_KEPT}
        self.seen.jobs_left = frozenset(self._alive_at.keys() - jobs.keys())


def _fault_from(row: Mapping[str, Any]) -> OpenFault | None:
    """None for one of a version that knows more than this one; it is read anew from the log when it comes again."""
    try:
        return _read_fault(row)
    except (KeyError, TypeError, ValueError) as error:
        log.warning("an earlier report of %s cannot be read: %s", row.get("code"), error)
        return None


def _read_fault(row: Mapping[str, Any]) -> OpenFault:
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
        recent=tuple(
            Sighting(datetime.fromisoformat(one["time"]), one.get("jobId"), int(one.get("count", 1)))
            for one in row.get("recent", [])
        ),
    )
