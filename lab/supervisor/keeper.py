"""Keeps one unit's process: start, watch by pidfd, restart with a growing delay, stop."""

import asyncio
import os
import signal
import subprocess
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from lab.supervisor.identity import Identity, identify, is_alive, send_signal
from lab.supervisor.unit import Unit

FIRST_RESTART_DELAY_SECONDS = 0.5
LONGEST_RESTART_DELAY_SECONDS = 10.0
STEADY_AFTER_SECONDS = 30.0


class Keeper:
    """State of one unit. `changed` is called whenever the process changes."""

    def __init__(self, name: str, changed: Callable[[], None]) -> None:
        self.name = name
        self.changed = changed
        self.unit: Unit | None = None
        self.identity: Identity | None = None
        self.wanted = False
        self.restarts = 0
        self.exit_code: int | None = None
        self.started_at = 0.0
        self.delay = FIRST_RESTART_DELAY_SECONDS
        self.gone = asyncio.Event()
        self.timer: asyncio.TimerHandle | None = None
        self.pidfd = -1

    def adopt(self, unit: Unit, identity: Identity) -> None:
        """Watch a process that an earlier supervisor started."""
        self.unit = unit
        self.wanted = True
        if is_alive(identity):
            self._watch(identity)
        elif unit.restart == "always":
            self._spawn()

    def start(self, unit: Unit) -> None:
        """Run the unit; nothing when it runs already. OSError when it can't be executed."""
        self.unit = unit
        self.wanted = True
        if self.identity is not None:
            return
        self._no_timer()
        self.restarts = 0
        self.delay = FIRST_RESTART_DELAY_SECONDS
        self._spawn()

    async def stop(self) -> None:
        """Ask, wait `stop_seconds`, then kill; returns when it is gone."""
        self.wanted = False
        self._no_timer()
        if self.identity is None or self.unit is None:
            return
        target, gone = self.identity, self.gone
        send_signal(target, signal.Signals[f"SIG{self.unit.stop_signal}"])
        try:
            await asyncio.wait_for(gone.wait(), self.unit.stop_seconds)
        except TimeoutError:
            send_signal(target, signal.SIGKILL)
            await gone.wait()

    def collect(self) -> None:
        """The process has ended: reap it when it is our child, then restart it when it should run."""
        if self.identity is None or self.unit is None:
            return
        pid = self.identity.pid
        try:
            done, status = os.waitpid(pid, os.WNOHANG)
            if done == 0:
                return
            self.exit_code = os.waitstatus_to_exitcode(status)
        except ChildProcessError:
            if is_alive(self.identity):
                return
            self.exit_code = None
        asyncio.get_running_loop().remove_reader(self.pidfd)
        os.close(self.pidfd)
        self.identity = None
        self.gone.set()
        self.changed()
        self._log(f"{self.name}: pid {pid} ended with {self.exit_code}")
        if self.wanted and self.unit.restart == "always":
            if time.monotonic() - self.started_at > STEADY_AFTER_SECONDS:
                self.delay = FIRST_RESTART_DELAY_SECONDS
            self.timer = asyncio.get_running_loop().call_later(self.delay, self._restart)
            self.delay = min(self.delay * 2, LONGEST_RESTART_DELAY_SECONDS)

    def report(self) -> dict[str, Any]:
        """The unit's state for a client."""
        if self.identity is not None:
            state = "running" if self.wanted else "stopping"
        elif self.timer is not None:
            state = "waiting"
        else:
            state = "failed" if self.wanted and self.exit_code != 0 else "stopped"
        return {
            "name": self.name,
            "state": state,
            "pid": self.identity.pid if self.identity else 0,
            "start_ticks": self.identity.start_ticks if self.identity else 0,
            "restarts": self.restarts,
            "exit_code": self.exit_code,
        }

    def _no_timer(self) -> None:
        """No restart is due any more: else a unit that is started meanwhile would run twice."""
        if self.timer is not None:
            self.timer.cancel()
            self.timer = None

    def _restart(self) -> None:
        self.timer = None
        self.restarts += 1
        self._spawn()

    def _spawn(self) -> None:
        assert self.unit is not None
        with Path(self.unit.log).open("ab") as log:
            process = subprocess.Popen(
                self.unit.argv,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
                cwd="/",
                env={**os.environ, **self.unit.env},
            )
        process.returncode = 0  # reaped by collect(), never by the Popen object
        self._watch(identify(process.pid) or Identity(process.pid, 0))

    def _watch(self, identity: Identity) -> None:
        self.identity = identity
        self.gone = asyncio.Event()
        self.started_at = time.monotonic()
        self.pidfd = os.pidfd_open(identity.pid)
        asyncio.get_running_loop().add_reader(self.pidfd, self.collect)
        self.changed()

    def _log(self, text: str) -> None:
        assert self.unit is not None
        with Path(self.unit.log).open("a") as log:
            log.write(f"[supervisor] {text}\n")
