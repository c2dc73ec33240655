"""The agent's loop: look at the kernel log often, at devices and processes each heartbeat, write what changed."""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime

from sparewheel.agent.api import ApiError
from sparewheel.agent.node import NodeWriter
from sparewheel.agent.node_state import NodeStateFile
from sparewheel.agent.report import ACTING, new_faults, status_wire
from sparewheel.agent.watcher import Watcher
from sparewheel.faults.classify import OpenFault

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Pace:
    """Seconds. ``busy_heartbeat`` holds while a fault is open: the controller waits for the job processes to end."""

    poll_seconds: float = 0.1
    heartbeat_seconds: float = 5.0
    busy_heartbeat_seconds: float = 1.0
    retry_seconds: float = 1.0
    glance_seconds: float = 1.0
    """Between two looks at new processes: a job shorter than this may have been here unseen."""


class Agent:
    """Turned by ``tick``; keeps what could not be written and writes it later."""

    def __init__(
        self,
        watcher: Watcher,
        writer: NodeWriter,
        *,
        version: str,
        pace: Pace,
        node_state: NodeStateFile | None = None,
        last_reset: Callable[[], tuple[str, datetime] | None] = lambda: None,
    ) -> None:
        self._watcher = watcher
        self._writer = writer
        self._node_state = node_state
        self._last_reset = last_reset
        self._version = version
        self._pace = pace
        self._loaded = False
        self._told: list[OpenFault] = []
        self._next_heartbeat_seconds = 0.0
        self._next_try_seconds = 0.0
        self._next_glance_seconds = 0.0

    def tick(self, now: datetime, monotonic_seconds: float) -> None:
        """One turn; never raises ApiError: a report that could not be written is due again after ``retry_seconds``."""
        if not self._loaded and not self._load(monotonic_seconds):
            return
        changed = self._watcher.read_kernel_log(now, monotonic_seconds)
        changed |= self._watcher.read_events(now)
        due = monotonic_seconds >= self._next_heartbeat_seconds
        if due:
            reset = self._last_reset()
            if reset is not None:
                self._watcher.gpu_was_reset(*reset)
            self._watcher.read_devices(now, monotonic_seconds)
            self._watcher.read_jobs(now)
        elif monotonic_seconds >= self._next_glance_seconds:
            self._watcher.glance_at_jobs(now)
            self._next_glance_seconds = monotonic_seconds + self._pace.glance_seconds
        if self._node_state is not None:
            self._node_state.write(self._watcher.seen, always=due)  # before the API server is asked for anything
        pending = bool(new_faults(self._told, self._watcher.seen.faults))
        if not (changed or due or pending) or (monotonic_seconds < self._next_try_seconds and not changed):
            return
        try:
            self._write(now)
        except ApiError as error:
            log.warning("report not written, next try in %.1f s: %s", self._pace.retry_seconds, error)
            self._next_try_seconds = monotonic_seconds + self._pace.retry_seconds
            self._next_heartbeat_seconds = self._next_try_seconds
            return
        busy = any(fault.action in ACTING for fault in self._watcher.seen.faults)
        interval = self._pace.busy_heartbeat_seconds if busy else self._pace.heartbeat_seconds
        self._next_heartbeat_seconds = monotonic_seconds + interval

    def _load(self, monotonic_seconds: float) -> bool:
        """What an earlier agent of this boot reported; nothing is read before it is known, so nothing counts twice."""
        if monotonic_seconds < self._next_try_seconds:
            return False
        try:
            _, status = self._writer.load()
        except ApiError as error:
            log.warning("earlier report not read, next try in %.1f s: %s", self._pace.retry_seconds, error)
            self._next_try_seconds = monotonic_seconds + self._pace.retry_seconds
            return False
        self._watcher.resume(status)
        self._told = list(self._watcher.seen.faults)
        self._loaded = True
        return True

    def _write(self, now: datetime) -> None:
        seen = self._watcher.seen
        self._writer.write_status(
            status_wire(seen, now=now, version=self._version, interval_seconds=self._pace.heartbeat_seconds)
        )
        self._writer.write_condition(seen, now)
        self._writer.write_events(new_faults(self._told, seen.faults))
        self._told = list(seen.faults)


def run(
    agent: Agent,
    pace: Pace,
    *,
    now: Callable[[], datetime],
    monotonic_seconds: Callable[[], float],
    wait: Callable[[float], bool],
) -> None:
    """Turn until ``wait`` says that the agent was asked to stop."""
    while not wait(pace.poll_seconds):
        agent.tick(now(), monotonic_seconds())
