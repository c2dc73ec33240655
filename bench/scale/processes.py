"""The controller as its image starts it, measured from outside."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
import urllib.error
import urllib.request
from dataclasses import dataclass
from pathlib import Path

from bench.processes import BenchError
from sparewheel.api.names import CONTROLLER_ENVIRONMENT


@dataclass(slots=True)
class ControllerProcess:
    """``started``: monotonic time of its start."""

    process: subprocess.Popen[bytes]
    port: int
    log: Path
    started: float

    @classmethod
    def start(
        cls, kubeconfig: Path, slurm_url: str, folder: Path, name: str, port: int, rate: float
    ) -> ControllerProcess:
        token = folder / "token"
        token.write_text("no token is asked for here")
        command = [
            sys.executable, "-m", "sparewheel.remediation.controller", f"--kubeconfig={kubeconfig}",
            f"--slurm-url={slurm_url}", f"--token-file={token}", f"--identity={name}", f"--health-port={port}",
            f"--api-calls-per-second={rate}",
        ]  # fmt: skip
        log = folder / f"{name}.log"
        environment = {**os.environ, **CONTROLLER_ENVIRONMENT}
        with log.open("wb") as file:
            process = subprocess.Popen(command, stdout=file, stderr=subprocess.STDOUT, env=environment)
        return cls(process, port, log, time.monotonic())

    def health(self) -> dict[str, object]:
        """The body of /healthz; empty while nothing answers."""
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{self.port}/healthz", timeout=5) as answer:
                return json.load(answer)
        except urllib.error.HTTPError as error:
            return json.load(error)
        except OSError:
            if self.process.poll() is not None:
                raise BenchError(f"the controller ended by itself; {self.log} says why") from None
            return {}

    def leads(self) -> bool:
        return self.health().get("leading") is True

    def stop(self, sign: signal.Signals = signal.SIGTERM) -> None:
        self.process.send_signal(sign)
        try:
            self.process.wait(timeout=15)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
