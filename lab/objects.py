"""What the platform's objects on the data centre's cluster say now."""

from __future__ import annotations

import json
from typing import Any

from lab.cluster.bootstrap import kubectl
from lab.paths import Paths
from sparewheel.api.gpu_host import GpuHost
from sparewheel.api.gpu_pool import GpuPool
from sparewheel.api.names import NAMESPACE
from sparewheel.api.remediation import Remediation

POOL_CRD = "gpupools.sparewheel.dev"


def objects(paths: Paths, plural: str) -> list[dict[str, Any]]:
    """Every object of ours of that kind; ``nodes`` are the cluster's."""
    name = plural if plural == "nodes" else f"{plural}.sparewheel.dev"
    return json.loads(kubectl(paths, "-n", NAMESPACE, "get", name, "-o", "json"))["items"]


def remediations(paths: Paths) -> list[Remediation]:
    return [Remediation.from_wire(item) for item in objects(paths, "remediations")]


def pools(paths: Paths) -> list[GpuPool]:
    return [GpuPool.from_wire(item) for item in objects(paths, "gpupools")]


def hosts(paths: Paths) -> dict[str, GpuHost]:
    found = [GpuHost.from_wire(item) for item in objects(paths, "gpuhosts")]
    return {host.spec.host: host for host in found}


def stack_is_up(paths: Paths) -> bool:
    """Is the platform on the cluster? CommandError when the cluster can't be asked."""
    known = kubectl(paths, "get", "crd", POOL_CRD, "--ignore-not-found", "-o", "name").strip()
    return bool(known) and bool(pools(paths))
