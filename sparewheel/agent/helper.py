"""``python -m sparewheel.agent.helper``: beside the agent where the stack allows it, does what the controller asks for.

It reads its request from the Node's annotation, which agents can't write, and answers in NodeHealth.
"""

from __future__ import annotations

import argparse
import logging
import os
import shlex
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from types import FrameType
from typing import Any, Final

from sparewheel.agent.api import ApiError, ApiServer
from sparewheel.agent.gpu_holders import holders
from sparewheel.agent.node import MERGE_PATCH
from sparewheel.agent.node_actions import Helper, HostError
from sparewheel.api.names import ANNOTATION_NODE_ACTION, GROUP, LAST_RESET_FILE, NVML_PAUSE_FILE, VERSION

log = logging.getLogger(__name__)
LOOK_SECONDS: Final = 2.0
ON_THE_HOST: Final = "nsenter --target 1 --mount --uts --ipc --net --"
"""The host's own programs in the host's own namespaces: its nvidia-smi goes with its driver."""


@dataclass(slots=True)
class ThisHost:
    """The machine that this pod is on. ``timeout_seconds``: of one command."""

    host_root: Path
    pause_file: Path
    reset_command: Sequence[str]
    reboot_command: Sequence[str]
    reset_file: Path
    timeout_seconds: float = 60.0

    def holders(self, pci: str) -> list[str]:
        try:
            return holders(self.host_root, pci)
        except OSError as error:
            raise HostError(f"whether anybody holds {pci} can't be told: {error}") from error

    def let_go(self) -> None:
        try:
            self.pause_file.parent.mkdir(parents=True, exist_ok=True)
            self.pause_file.touch()
        except OSError as error:
            raise HostError(f"the agent can't be asked to let go: {error}") from error

    def hold_again(self) -> None:
        try:
            self.pause_file.unlink(missing_ok=True)
        except OSError as error:
            raise HostError(f"the agent can't be told that it may look at its GPUs again: {error}") from error

    def reset_gpu(self, pci: str) -> None:
        """The agent is told after it; one that can't be told goes on reporting what the reset has ended."""
        self._run([word.replace("{device}", pci) for word in self.reset_command])
        try:
            self.reset_file.write_text(f"{pci} {datetime.now(UTC).isoformat()}\n", "utf-8")
        except OSError as error:
            raise HostError(f"{pci} was reset, but the agent can't be told: {error}") from error

    def reboot(self) -> None:
        self._run(self.reboot_command)

    def _run(self, command: Sequence[str]) -> None:
        try:
            done = subprocess.run(
                command, capture_output=True, text=True, errors="replace", timeout=self.timeout_seconds, check=False
            )
        except (OSError, subprocess.TimeoutExpired) as error:
            raise HostError(f"{shlex.join(command)}: {error}") from error
        if done.returncode != 0:
            said = " ".join(f"{done.stdout} {done.stderr}".split())
            raise HostError(f"{shlex.join(command)} ended with {done.returncode}: {said}")


def look(api: ApiServer, node: str, helper: Helper) -> None:
    """One turn. Raises ApiError: nothing is begun on what could not be read; HostError: the agent could not be told."""
    try:
        helper.host.hold_again()  # an earlier turn, or life, may have ended in the middle
    except HostError as error:
        log.warning("%s; it is tried again", error)  # a reboot may be what helps
    annotations: dict[str, str] = api.request("GET", f"/api/v1/nodes/{node}")["metadata"].get("annotations") or {}
    annotation = annotations.get(ANNOTATION_NODE_ACTION, "")
    if not annotation:
        return
    health = api.request("GET", f"/apis/{GROUP}/{VERSION}/nodehealths/{node}")
    status: dict[str, Any] = health.get("status") or {}
    helper.turn(annotation, status.get("action") or {})


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="sparewheel-helper", description="Resets GPUs and reboots, when asked to.")
    parser.add_argument("--node", default=os.environ.get("NODE_NAME"), help="name of this Node (or NODE_NAME)")
    parser.add_argument("--host-root", type=Path, default=Path("/host"), help="where the host's root is mounted")
    parser.add_argument("--reset-command", default=f"{ON_THE_HOST} nvidia-smi --gpu-reset -i {{device}}")
    parser.add_argument("--reboot-command", default=f"{ON_THE_HOST} systemctl reboot")
    options = parser.parse_args(arguments)
    if not options.node:
        parser.error("--node is missing: set NODE_NAME from spec.nodeName in the pod's template")
    logging.basicConfig(level=logging.INFO, stream=sys.stderr, format="%(asctime)s %(levelname)s %(name)s %(message)s")
    api = ApiServer(os.environ["KUBERNETES_SERVICE_HOST"], int(os.environ["KUBERNETES_SERVICE_PORT"]))

    def write(action: dict[str, Any]) -> None:
        path = f"/apis/{GROUP}/{VERSION}/nodehealths/{options.node}/status"
        api.request("PATCH", path, {"status": {"action": action}}, MERGE_PATCH)
        log.info("event=node_action %s", " ".join(f"{key}={value!r}" for key, value in action.items()))

    host = ThisHost(
        host_root=options.host_root,
        pause_file=Path(NVML_PAUSE_FILE),
        reset_file=Path(LAST_RESET_FILE),
        reset_command=shlex.split(options.reset_command),
        reboot_command=shlex.split(options.reboot_command),
    )
    boot_file = options.host_root / "proc/sys/kernel/random/boot_id"
    try:
        boot_id = boot_file.read_text("ascii").strip()
    except (OSError, UnicodeDecodeError) as error:
        parser.error(f"{boot_file} can't be read ({error}): mount the host's root at --host-root")
    helper = Helper(host, boot_id, write, now=api.now, wait=time.sleep)
    stop = threading.Event()

    def on_signal(_signal: int, _frame: FrameType | None) -> None:
        stop.set()

    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, on_signal)
    while not stop.wait(LOOK_SECONDS):
        try:
            look(api, options.node, helper)
        except ApiError as error:
            log.warning("%s; nothing was begun on it", error)
        except HostError as error:
            log.warning("%s; it is tried again", error)
    return 0


if __name__ == "__main__":
    sys.exit(main())
