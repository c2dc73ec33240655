"""What the tests of warm spares look at on the running data centre."""

from __future__ import annotations

from datetime import datetime

from lab.cluster.bootstrap import kubectl
from lab.restore import slurm
from tests.lab.platform import Platform

SAVE_SECONDS = 2


def spare_node(platform: Platform) -> str:
    """The Slurm node that stands by."""
    states = slurm(platform.paths, "sinfo -N -h -o '%N %T'").splitlines()
    (name,) = {line.split()[0] for line in states if line.endswith(" maint")}
    return name


def node_of(platform: Platform, slurm_node: str) -> str:
    return kubectl(platform.paths, "-n", "slurm", "get", "pod", slurm_node, "-o", "jsonpath={.spec.nodeName}")


def state_of(platform: Platform, slurm_node: str) -> str:
    """Empty where Slurm doesn't know it, which scontrol says on its standard output."""
    text = slurm(platform.paths, f"scontrol show node {slurm_node} 2>&1 || true")
    return text if "State=" in text else ""


def reserved(platform: Platform, slurm_node: str) -> bool | None:
    return True if f"sparewheel-spare-{slurm_node}" in slurm(platform.paths, "scontrol show res -o") else None


def pending(platform: Platform, job: int) -> bool:
    return platform.alice.job(job).state == "PENDING"


def seconds_lost(platform: Platform, job: int, attempt: int = 1) -> float:
    """From the last save to the first new step."""
    first = platform.await_event(job, "first_step", attempt)
    saved = [e["time"] for e in platform.events(job) if e["event"] == "saved" and e["attempt"] == attempt - 1]
    return (datetime.fromisoformat(first["time"]) - datetime.fromisoformat(max(saved))).total_seconds()
