"""A made-up host root with an agent over it, and an API that keeps what it wrote."""

from __future__ import annotations

import sys
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from sparewheel.agent.api import ApiError
from sparewheel.agent.devices import DeviceFiles
from sparewheel.agent.helper import ThisHost
from sparewheel.agent.kernel_log import open_kernel_log
from sparewheel.agent.loop import Agent, Pace
from sparewheel.agent.node import NodeWriter
from sparewheel.agent.node_state import NodeStateFile
from sparewheel.agent.watcher import Watcher
from sparewheel.api.node_health import NodeHealth, NodeHealthStatus

START = datetime(2026, 1, 2, tzinfo=UTC)
XID_79 = "3,{seq},{us},-;NVRM: Xid (PCI:0000:17:00): 79, pid=4, name=python3, GPU has fallen off the bus.\n"


class RecordingApi:
    """Keeps NodeHealth as an API server would; ``down`` makes every request fail."""

    def __init__(self) -> None:
        self.health: dict[str, Any] | None = None
        self.conditions: list[dict[str, Any]] = []
        self.events: dict[str, dict[str, Any]] = {}
        self.down = False
        self.node_uid = "uid-1"

    def request(self, method: str, path: str, body: Any = None, content_type: str = "application/json") -> Any:
        if self.down:
            raise ApiError("no answer")
        if path == "/api/v1/nodes/gpu-1":
            return {"metadata": {"name": "gpu-1", "uid": self.node_uid}}
        if path.endswith("/nodes/gpu-1/status"):
            self.conditions.append(body["status"]["conditions"][0])
        elif path.endswith("/events"):
            if body["metadata"]["name"] in self.events:
                raise ApiError("exists", 409)
            self.events[body["metadata"]["name"]] = body
        elif method == "GET":
            if self.health is None:
                raise ApiError("not found", 404)
            return self.health
        elif method == "POST":
            self.health = body
        elif self.health is None:
            raise ApiError("not found", 404)
        else:
            self.health = {**self.health, **body, "metadata": {**self.health["metadata"], **body.get("metadata", {})}}
        return None

    @property
    def status(self) -> NodeHealthStatus:
        assert self.health is not None
        return NodeHealth.from_wire(self.health).status


class Host:
    """A host root with eight GPUs, a kernel log, and an agent that can be restarted."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.api = RecordingApi()
        (root / "dev").mkdir()
        for gpu in range(8):
            (root / "dev" / f"nvidia{gpu}").touch()
        (root / "dev/nvidiactl").touch()
        (root / "proc").mkdir()
        self.log = root / "kmsg"
        self.log.touch()
        self.seconds = 0.0
        self.boot_id = "boot-a"
        self.start()

    def start(self, **options: Any) -> None:
        watcher = Watcher(
            kernel_log=open_kernel_log(self.log),
            gpus=DeviceFiles(self.root),
            host_root=self.root,
            boot_id=self.boot_id,
            expected_gpus=options.get("expected_gpus"),
            overrides=options.get("overrides", {}),
            allow_drills=options.get("allow_drills", False),
        )
        mark = NodeStateFile(self.root / "run/node-state", dry_run=False)
        self.agent = Agent(watcher, NodeWriter(self.api, "gpu-1"), version="1", pace=Pace(), node_state=mark)

    def write(self, text: str, seq: int = 1) -> None:
        with self.log.open("a") as file:
            file.write(text.format(seq=seq, us=int(self.seconds * 1e6)))

    def turn(self, seconds: float = 1.0) -> None:
        self.seconds += seconds
        self.agent.tick(START + timedelta(seconds=self.seconds), self.seconds)


def this_host(root: Path, script: str) -> ThisHost:
    """The helper's host under ``root``, which resets and reboots by a Python script."""
    command = [sys.executable, "-c", script, "{device}"]
    return ThisHost(root, root / "run/pause", command, command, root / "last-reset")
