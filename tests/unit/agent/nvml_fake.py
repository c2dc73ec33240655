"""NVIDIA's library as a test wants it: GPUs by hand, events by hand, failing or hanging on demand."""

from __future__ import annotations

import threading
from collections import deque
from dataclasses import replace
from typing import Any

from sparewheel.agent.devices import Gpu, GpuReading
from sparewheel.agent.nvml import NvmlError
from sparewheel.agent.nvml_source import reading_of


def gpu(index: int, **state: Any) -> Gpu:
    healthy: dict[str, Any] = {
        "recovery_action": 0,
        "remap_pending": False,
        "remap_failure": False,
        "uncorrectable_ecc": 0,
        "uncorrectable_ecc_ever": 2,
    }
    pci = f"0000:{0x17 + index:02x}:00"
    return Gpu(index, pci, uuid=f"GPU-{index}", serial=f"16{index}", **{**healthy, **state})


class FakeNvml:
    """The library of a node with eight GPUs."""

    def __init__(self) -> None:
        self.devices = [gpu(index) for index in range(8)]
        self.events: deque[tuple[int, str]] = deque()
        self.error = ""
        self.hang: threading.Event | None = None
        self.sessions = 0
        self.open = False

    def start(self) -> None:
        self._answer()
        self.sessions += 1
        self.open = True

    def gpus(self) -> list[Gpu]:
        self._answer()
        return list(self.devices)

    def wait_for_xid(self, timeout_seconds: float) -> tuple[int, str] | None:
        self._answer()
        return self.events.popleft() if self.events else None

    def stop(self) -> None:
        self.open = False

    def _answer(self) -> None:
        if self.hang is not None:
            self.hang.wait()
        if self.error:
            raise NvmlError(self.error)


class FakeGpus:
    """A source for the watcher, without a thread."""

    def __init__(self) -> None:
        self.devices = [gpu(index) for index in range(8)]
        self.events: list[tuple[int, str]] = []
        self.message = ""

    def set(self, index: int, **state: Any) -> None:
        self.devices[index] = replace(self.devices[index], **state)

    def read(self) -> GpuReading:
        return GpuReading(None, message=self.message) if self.message else reading_of(self.devices)

    def xids(self) -> list[tuple[int, str]]:
        found, self.events = self.events, []
        return found
