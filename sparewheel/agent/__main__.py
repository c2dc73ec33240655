"""``python -m sparewheel.agent``: one per GPU node, as a DaemonSet pod with the host's root at ``--host-root``."""

from __future__ import annotations

import argparse
import json
import logging
import os
import signal
import sys
import threading
import time
from datetime import UTC, datetime
from pathlib import Path
from types import FrameType

from sparewheel import __version__
from sparewheel.agent.api import ApiServer
from sparewheel.agent.devices import DeviceFiles, GpuSource
from sparewheel.agent.infiniband import Adapters, Sysfs
from sparewheel.agent.kernel_log import open_kernel_log
from sparewheel.agent.loop import Agent, Pace, run
from sparewheel.agent.node import NodeWriter
from sparewheel.agent.node_state import NodeStateFile, last_reset
from sparewheel.agent.nvml import Pynvml
from sparewheel.agent.nvml_source import NvmlSource
from sparewheel.agent.watcher import Watcher
from sparewheel.api.enums import Action
from sparewheel.api.names import LAST_RESET_FILE, NODE_STATE_FILE, NVML_PAUSE_FILE


def gpu_source(name: str, host_root: Path) -> GpuSource:
    if name == "device-files":
        return DeviceFiles(host_root)
    return NvmlSource(Pynvml(), time.monotonic, paused=Path(NVML_PAUSE_FILE).exists).start()


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="sparewheel-agent", description="Reports the health of this node's GPUs.")
    parser.add_argument("--node", default=os.environ.get("NODE_NAME"), help="name of this Node (or NODE_NAME)")
    parser.add_argument("--host-root", type=Path, default=Path("/host"), help="where the host's root is mounted")
    parser.add_argument("--kernel-log", type=Path, default=Path("/dev/kmsg"), help="path on the host")
    parser.add_argument("--gpu-source", choices=["nvml", "device-files"], default="nvml")
    parser.add_argument("--expected-gpus", type=int, help="GPUs this node must have; else the most seen in this boot")
    parser.add_argument("--expected-hcas", type=int, help="InfiniBand adapters; else the most seen in this boot")
    parser.add_argument("--overrides", default="{}", help='JSON, e.g. {"XID 63": "replace"}')
    parser.add_argument("--heartbeat-seconds", type=float, default=5.0)
    parser.add_argument("--allow-drills", action="store_true", help="records marked as a drill count")
    parser.add_argument("--node-state", type=Path, default=Path(NODE_STATE_FILE), help="marked for Slurm's checks")
    parser.add_argument("--dry-run", action="store_true", help="no fault fails Slurm's checks")
    options = parser.parse_args(arguments)
    if not options.node:
        parser.error("--node is missing: set NODE_NAME from spec.nodeName in the pod's template")
    try:
        overrides = {code: Action(action) for code, action in json.loads(options.overrides).items()}
    except (ValueError, AttributeError) as error:
        parser.error(f"--overrides: {error}; actions are {', '.join(Action)}")
    logging.basicConfig(level=logging.INFO, stream=sys.stderr, format="%(asctime)s %(levelname)s %(name)s %(message)s")
    host_root: Path = options.host_root
    watcher = Watcher(
        kernel_log=open_kernel_log(host_root / str(options.kernel_log).lstrip("/")),
        gpus=gpu_source(options.gpu_source, host_root),
        host_root=host_root,
        boot_id=(host_root / "proc/sys/kernel/random/boot_id").read_text("ascii").strip(),
        expected_gpus=options.expected_gpus,
        overrides=overrides,
        allow_drills=options.allow_drills,
        adapters=Adapters(Sysfs(host_root), options.expected_hcas),
    )
    api = ApiServer(os.environ["KUBERNETES_SERVICE_HOST"], int(os.environ["KUBERNETES_SERVICE_PORT"]))
    pace = Pace(heartbeat_seconds=options.heartbeat_seconds)
    node_state = NodeStateFile(options.node_state, dry_run=options.dry_run)
    agent = Agent(
        watcher,
        NodeWriter(api, options.node),
        version=__version__,
        pace=pace,
        node_state=node_state,
        last_reset=lambda: last_reset(Path(LAST_RESET_FILE)),
    )
    stop = threading.Event()

    def on_signal(_signal: int, _frame: FrameType | None) -> None:
        stop.set()

    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, on_signal)
    run(agent, pace, now=lambda: datetime.now(UTC), monotonic_seconds=time.monotonic, wait=stop.wait)
    return 0


if __name__ == "__main__":
    sys.exit(main())
