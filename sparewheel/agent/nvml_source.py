"""Keeps a session with NVML in a thread of its own: a driver that hangs holds up nothing but its own reading."""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass
from queue import Empty, SimpleQueue

from sparewheel.agent.devices import Gpu, GpuReading
from sparewheel.agent.nvml import NvmlError, NvmlLibrary


@dataclass(frozen=True, slots=True)
class NvmlPace:
    """Seconds. A reading older than ``deadline`` says nothing any more: the thread hangs in the driver."""

    read_every: float = 5.0
    wait_for_events: float = 1.0
    retry: float = 10.0
    deadline: float = 20.0
    first_answer: float = 3.0
    """How long the first ``read`` waits, so that a healthy node isn't "not evaluated" at each start."""


class NvmlSource:
    """``turn`` belongs to the thread that ``start`` begins, everything else to the agent.

    ``paused``: while it says so the session is closed, because a GPU that anybody holds open cannot be reset.
    """

    def __init__(
        self,
        library: NvmlLibrary,
        monotonic_seconds: Callable[[], float],
        pace: NvmlPace | None = None,
        paused: Callable[[], bool] = lambda: False,
    ) -> None:
        self._library = library
        self._monotonic_seconds = monotonic_seconds
        self._pace = pace or NvmlPace()
        self._paused = paused
        self._events: SimpleQueue[tuple[int, str]] = SimpleQueue()
        self._answered = threading.Event()
        self._latest = GpuReading(None, message="NVML has not answered yet")
        self._latest_seconds = monotonic_seconds()
        self._running = False
        self._next_read_seconds = 0.0

    def start(self) -> NvmlSource:
        threading.Thread(target=self._run, name="nvml", daemon=True).start()
        return self

    # ---------------------------------------------------------------- the agent's side
    def read(self) -> GpuReading:
        self._answered.wait(self._pace.first_answer)
        latest, seconds = self._latest, self._latest_seconds
        silent = self._monotonic_seconds() - seconds
        if silent > self._pace.deadline:
            return GpuReading(None, message=f"NVML has not answered for {silent:.0f} s: the driver hangs")
        return latest

    def xids(self) -> list[tuple[int, str]]:
        found: list[tuple[int, str]] = []
        while True:
            try:
                found.append(self._events.get_nowait())
            except Empty:
                return found

    # ---------------------------------------------------------------- the thread's side
    def _run(self) -> None:
        pause = threading.Event()
        while True:
            pause.wait(self.turn())

    def turn(self) -> float:
        """One look; returns after how many seconds the next one is due."""
        if self._paused():
            self._library.stop()
            self._running = False
            self._publish(GpuReading(None, message="NVML is let go of while a GPU is reset"))
            return self._pace.wait_for_events
        try:
            self._look()
        except NvmlError as error:
            self._library.stop()
            self._running = False
            self._publish(GpuReading(None, message=str(error)))
            return self._pace.retry
        return 0.0

    def _look(self) -> None:
        if not self._running:
            self._library.start()
            self._running = True
            self._next_read_seconds = 0.0
        now = self._monotonic_seconds()
        if now >= self._next_read_seconds:
            self._publish(reading_of(self._library.gpus()))
            self._next_read_seconds = now + self._pace.read_every
        event = self._library.wait_for_xid(self._pace.wait_for_events)
        if event is not None:
            self._events.put(event)

    def _publish(self, reading: GpuReading) -> None:
        self._latest, self._latest_seconds = reading, self._monotonic_seconds()
        self._answered.set()


def reading_of(gpus: list[Gpu]) -> GpuReading:
    """A lost GPU is known to the driver, and not seen."""
    here = [gpu for gpu in gpus if not gpu.lost]
    return GpuReading(len(here), {gpu.pci: gpu.index for gpu in here}, gpus=tuple(gpus))
