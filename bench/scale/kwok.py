"""kwok gives the Nodes their kubelets' heartbeats."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from lab.api_server import binary

LEASE_SECONDS: Final = 400
"""Ten thousand leases of forty seconds are more than two cores renew."""
HEARTBEAT_MS: Final = 300_000
STAGE: Final = {
    "apiVersion": "kwok.x-k8s.io/v1alpha1",
    "kind": "Stage",
    "metadata": {"name": "node-heartbeat"},
    "spec": {
        "resourceRef": {"apiGroup": "v1", "kind": "Node"},
        "selector": {"matchExpressions": [{"key": ".metadata.deletionTimestamp", "operator": "DoesNotExist"}]},
        "delay": {"durationMilliseconds": HEARTBEAT_MS, "jitterDurationMilliseconds": 2 * HEARTBEAT_MS},
        "next": {
            "statusTemplate": 'conditions:\n- type: Ready\n  status: "True"\n  reason: KubeletReady\n'
            "  lastHeartbeatTime: {{ Now | Quote }}\n"
        },
    },
}


@contextmanager
def heartbeats(kubeconfig: Path) -> Generator[None, None, None]:
    """While the block runs. ``make bench`` builds kwok."""
    program = binary("kwok")
    if program is None:
        raise SystemExit("kwok is missing; `make bench` builds it")
    config = kubeconfig.with_name("kwok.json")
    config.write_text(json.dumps(STAGE))
    log = kubeconfig.with_name("kwok.log")
    command = [
        program,
        f"--kubeconfig={kubeconfig}",
        f"--config={config}",
        "--manage-nodes-with-annotation-selector=kwok.x-k8s.io/node=fake",
        f"--node-lease-duration-seconds={LEASE_SECONDS}",
    ]
    with log.open("wb") as file:
        process = subprocess.Popen(command, stdout=file, stderr=subprocess.STDOUT)
    try:
        yield
        if process.poll() is not None:
            raise SystemExit(f"kwok ended by itself: {log.read_text('utf-8')[-500:]}")
    finally:
        process.terminate()
        process.wait(timeout=10)
