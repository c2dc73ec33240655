"""Figure: how many kernel log lines a second the agent reads, classifies and folds into its report."""

from __future__ import annotations

import tempfile
import time
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from sparewheel.agent.devices import DeviceFiles
from sparewheel.agent.kernel_log import open_kernel_log
from sparewheel.agent.loop import Agent, Pace
from sparewheel.agent.node import NodeWriter
from sparewheel.agent.watcher import Watcher

LINES = 50_000
FAULTS = (31, 45, 48, 79, 94, 119)
GPUS = 8


class NoApi:
    """Takes every report; ``writes`` counts those of NodeHealth."""

    def __init__(self) -> None:
        self.writes = 0

    def request(self, method: str, path: str, body: object = None, content_type: str = "") -> Any:  # noqa: ARG002
        self.writes += method == "PATCH" and "nodehealths" in path and path.endswith("/status")
        return {"metadata": {"uid": "u", "ownerReferences": [{"uid": "u"}]}}


def line(number: int) -> str:
    """Every second line a fault, of any GPU: worse than any real log."""
    gpu, xid = number // 2 % GPUS, FAULTS[number // 2 // GPUS % len(FAULTS)]
    fault = f"NVRM: Xid (PCI:0000:{0x10 + gpu:02x}:00): {xid}, pid=4242, name=python3, Ch 0000000e"
    noise = f"mlx5_core 0000:1a:00.0: mlx5_cmd_out_err:812:(pid {number}): ACCESS_REG(0x805) failed, status bad"
    return f"3,{number},{number},-;{noise if number % 2 else fault}\n"


def measure(lines: int = LINES) -> dict[str, float]:
    """``agent_lines_per_second``, and in how many writes of NodeHealth they ended."""
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder)
        (root / "dev").mkdir()
        (root / "proc").mkdir()
        log = root / "kmsg"
        log.touch()
        api = NoApi()
        watcher = Watcher(
            kernel_log=open_kernel_log(log),
            gpus=DeviceFiles(root),
            host_root=root,
            boot_id="b",
            expected_gpus=None,
            overrides={},
            allow_drills=False,
        )
        agent = Agent(watcher, NodeWriter(api, "gpu-1"), version="1", pace=Pace())
        now = datetime.now(UTC)
        agent.tick(now, 0.0)
        log.write_text("".join(map(line, range(1, lines + 1))))
        begin = time.perf_counter()
        writes = api.writes
        while (watcher.seen.kernel_log_sequence or 0) < lines:
            agent.tick(now, 0.5)
        seconds = time.perf_counter() - begin
    return {"agent_lines_per_second": lines / seconds, "agent_writes": float(api.writes - writes)}


if __name__ == "__main__":
    for name, value in measure().items():
        print(f"{name} {value:.0f}")
