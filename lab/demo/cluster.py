"""What the demo asks of the cluster: records, hosts, and the command line that people use."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Callable
from typing import Any, TypeVar

from lab.cluster.bootstrap import kubectl
from lab.paths import Paths
from sparewheel.api.gpu_host import GpuHost
from sparewheel.api.names import NAMESPACE
from sparewheel.api.remediation import Remediation

T = TypeVar("T")
LOOK_SECONDS = 0.25


class StoryError(Exception):
    """The story did not go on; the message says what was awaited and what was seen instead."""


def await_(what: str, look: Callable[[], T | None], *, seconds: float, seen: Callable[[], str] | None = None) -> T:
    """Look until there is an answer; StoryError after ``seconds``."""
    deadline = time.monotonic() + seconds
    while True:
        answer = look()
        if answer is not None:
            return answer
        if time.monotonic() > deadline:
            state = f"; {seen()}" if seen else ""
            raise StoryError(f"{what}: not within {seconds:.0f} s{state}")
        time.sleep(LOOK_SECONDS)


def objects(paths: Paths, plural: str) -> list[dict[str, Any]]:
    return json.loads(kubectl(paths, "-n", NAMESPACE, "get", f"{plural}.sparewheel.dev", "-o", "json"))["items"]


def remediations(paths: Paths) -> list[Remediation]:
    return [Remediation.from_wire(item) for item in objects(paths, "remediations")]


def hosts(paths: Paths) -> dict[str, GpuHost]:
    found = [GpuHost.from_wire(item) for item in objects(paths, "gpuhosts")]
    return {host.spec.host: host for host in found}


def node_of_worker(paths: Paths, slurm_node: str) -> str:
    """The Kubernetes node on which the worker of a Slurm node runs."""
    selector = f"nodeset.slinky.slurm.net/pod-hostname={slurm_node}"
    path = "jsonpath={.items[0].spec.nodeName}"
    return kubectl(paths, "-n", "slurm", "get", "pods", "-l", selector, "-o", path)


def sparewheel(paths: Paths, *arguments: str) -> str:
    """Run the product's own command line."""
    done = subprocess.run(
        [sys.executable, "-m", "sparewheel.cli", *arguments],
        env={**os.environ, "KUBECONFIG": str(paths.kubeconfig)},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    if done.returncode:
        raise StoryError(f"sparewheel {' '.join(arguments)}: {done.stderr.strip()}")
    return done.stdout.strip()
