"""What is allowed although a rule forbids it in general, each with its reason: part of the product, not of a stack.

What one stack alone does otherwise is an exception, with an end date, in stacks/policies.yaml.
"""

from __future__ import annotations

from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import Final

from sparewheel.api.names import AGENT_APP_NAME, NODE_STATE_FOLDER


@dataclass(frozen=True, slots=True)
class Allowed:
    """``what`` on resources of ``kind`` whose name fits ``name``."""

    kind: str
    name: str
    what: str
    reason: str


HOST_ACCESS: Final = (
    Allowed("DaemonSet", f"{AGENT_APP_NAME}-*", "privileged", "reads the kernel's log and asks the GPUs' driver"),
    Allowed("DaemonSet", f"{AGENT_APP_NAME}-*", "hostPID", "sees whether a job's processes are alive"),
    Allowed("DaemonSet", f"{AGENT_APP_NAME}-*", "hostPath /", "reads device files and cgroups of the host"),
    Allowed("DaemonSet", f"{AGENT_APP_NAME}-*", f"hostPath {NODE_STATE_FOLDER}", "marks the node's state for Slurm"),
    Allowed("NodeSet", "*", f"hostPath {NODE_STATE_FOLDER}", "Slurm's node check reads the agent's mark"),
)
"""Who may reach into a host, and why."""

ALL_SECRETS: Final = (
    Allowed("ClusterRole", "slurm-operator*", "secrets", "Slinky's operator makes tokens and keys for any cluster"),
)
"""Who may use every secret, and why."""


def is_allowed(allowed: tuple[Allowed, ...], kind: str, name: str, what: str) -> bool:
    return any(one.kind == kind and fnmatchcase(name, one.name) and fnmatchcase(what, one.what) for one in allowed)
