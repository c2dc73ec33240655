"""host-status: one JSON object about this host."""

import argparse
import json
from pathlib import Path

from lab.machines.guest.files import SUPERVISOR_RUN
from lab.machines.guest.state import host_name, kubelet_is_healthy, load_membership
from lab.supervisor.client import Supervisor


def main() -> None:
    """No arguments; prints host, joined, nodeName, bootId, gpus, kubeletHealthy, units."""
    argparse.ArgumentParser("host-status", description="What this host is doing.").parse_args()
    membership = load_membership()
    units = {unit.name: unit.state for unit in Supervisor(Path(SUPERVISOR_RUN)).status()}
    report = {
        "host": host_name(),
        "joined": membership is not None,
        "nodeName": membership.node_name if membership else None,
        "bootId": Path("/proc/sys/kernel/random/boot_id").read_text().strip(),
        "gpus": len(list(Path("/dev").glob("nvidia[0-9]*"))),
        "kubeletHealthy": kubelet_is_healthy(),
        "units": units,
    }
    print(json.dumps(report))


if __name__ == "__main__":
    main()
