"""Speaking to a supervisor: one JSON line per request over its socket."""

import fcntl
import json
import os
import socket
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from lab.supervisor.identity import Identity
from lab.supervisor.unit import Unit

SOCKET_NAME = "control.sock"
LOCK_NAME = "supervisor.lock"


class SupervisorError(RuntimeError):
    """The supervisor refused or can't be reached."""


@dataclass(frozen=True)
class UnitStatus:
    """`restarts` counts restarts since the unit was last started by request."""

    name: str
    state: Literal["running", "stopped", "failed", "waiting", "stopping"]
    identity: Identity | None
    restarts: int
    exit_code: int | None


class Supervisor:
    """A supervisor by its runtime folder."""

    def __init__(self, run: Path) -> None:
        self.run = run

    @property
    def units(self) -> Path:
        """Folder of unit files."""
        return self.run / "units"

    def is_running(self) -> bool:
        """Whether a supervisor holds this folder's lock."""
        lock = self.run / LOCK_NAME
        if not lock.exists():
            return False
        with lock.open("a") as file:
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                return True
        return False

    def ensure_running(self, log: Path) -> None:
        """Start the supervisor in a session of its own unless it runs."""
        if not self.is_running():
            self.run.mkdir(parents=True, exist_ok=True)
            log.parent.mkdir(parents=True, exist_ok=True)
            root = str(Path(__file__).resolve().parents[2])
            with log.open("ab") as output:
                subprocess.Popen(
                    [sys.executable, "-m", "lab.supervisor", str(self.run)],
                    stdin=subprocess.DEVNULL,
                    stdout=output,
                    stderr=output,
                    start_new_session=True,
                    cwd="/",
                    env={**os.environ, "PYTHONPATH": root},
                )
        self._await_answer(10.0, log)

    def _await_answer(self, seconds: float, log: Path) -> None:
        deadline = time.monotonic() + seconds
        while True:
            try:
                self.status()
                return
            except SupervisorError:
                if time.monotonic() > deadline:
                    raise SupervisorError(f"the supervisor of {self.run} does not answer; see {log}") from None
                time.sleep(0.05)

    def start(self, unit: Unit) -> UnitStatus:
        """Start the unit, or restart it when its file changed; nothing when it runs as described."""
        changed = unit.write(self.units)
        if changed and any(s.name == unit.name and s.identity for s in self.status()):
            self.stop(unit.name)
        return _status(self._ask("start", unit.name))

    def stop(self, name: str) -> None:
        """Stop a unit and wait until it is gone; nothing when it isn't known."""
        self._ask("stop", name)

    def status(self) -> list[UnitStatus]:
        """Every unit that was started or has a unit file."""
        return [_status(item) for item in self._ask("status", "")["units"]]

    def find(self, name: str) -> UnitStatus | None:
        """One unit's status."""
        return next((s for s in self.status() if s.name == name), None)

    def shutdown(self) -> None:
        """Stop every unit, the last started first, then the supervisor itself."""
        if not self.is_running():
            return
        self._ask("shutdown", "")
        deadline = time.monotonic() + 10
        while self.is_running() and time.monotonic() < deadline:
            time.sleep(0.02)

    def _ask(self, verb: str, name: str) -> dict[str, Any]:
        try:
            with socket.socket(socket.AF_UNIX) as connection:
                connection.settimeout(120)
                connection.connect(str(self.run / SOCKET_NAME))
                connection.sendall(json.dumps({"verb": verb, "name": name}).encode() + b"\n")
                with connection.makefile() as file:
                    line = file.readline()
        except OSError as error:
            raise SupervisorError(f"the supervisor of {self.run} can't be reached: {error}") from error
        if not line:
            raise SupervisorError(f"the supervisor of {self.run} closed the connection on '{verb} {name}'")
        answer: dict[str, Any] = json.loads(line)
        if "error" in answer:
            raise SupervisorError(f"{verb} {name}: {answer['error']}")
        return answer


def _status(item: dict[str, Any]) -> UnitStatus:
    pid = item["pid"]
    return UnitStatus(
        name=item["name"],
        state=item["state"],
        identity=Identity(pid, item["start_ticks"]) if pid else None,
        restarts=item["restarts"],
        exit_code=item["exit_code"],
    )
