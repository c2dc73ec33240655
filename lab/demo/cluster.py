"""What the demo asks of the cluster, through the command line that people use too."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from typing import TypeVar

from lab.cluster.bootstrap import kubectl
from lab.paths import Paths
from lab.waiting import wait_for

T = TypeVar("T")


class StoryError(Exception):
    """The story did not go on; the message says what was awaited and what was seen instead."""


def await_(what: str, look: Callable[[], T | None], *, seconds: float, seen: Callable[[], str] | None = None) -> T:
    """Look until there is an answer; StoryError with what was ``seen`` after ``seconds``."""
    return wait_for(look, seconds, lambda: f"{what}: not in time{f'; {seen()}' if seen else ''}", StoryError)


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
