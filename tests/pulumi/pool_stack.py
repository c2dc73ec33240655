"""A stack of one pool by the stack's own component; its machines are Nodes of a real API server (backend ``warm``)."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from tests.pulumi.cluster import Cluster
from tests.pulumi.stack import ALONE, ProjectStack

PROGRAM = """
import json
from pathlib import Path

import pulumi_kubernetes as k8s
from components.gpu_node_pool import Access, GpuNodePool
from stacks.platform import Images
from stacks.pools import Pool

wanted = json.loads(Path("wanted.json").read_text())
images = Images(**dict.fromkeys(
    ("slurmctld", "slurmd", "slurmdbd", "slurmrestd", "login", "base", "sparewheel"), "registry.example/image:1"))
kubeconfig = pulumi.Output.secret(Path(wanted["kubeconfig"]).read_text())
provider = k8s.Provider("cluster", kubeconfig=kubeconfig, cluster_identifier="test")
if "capacity" in wanted["pool"]:
    import components.gpu_node_pool as module

    made = module.PoolCapacity
    renamed = wanted["pool"].pop("capacity")
    module.PoolCapacity = lambda name, **arguments: made(renamed, **arguments)
component = wanted["pool"].pop("component", "pool")
GpuNodePool(
    component,
    Pool.model_validate(wanted["pool"]),
    images,
    access=Access(kubeconfig, "tested"),
    grace_seconds=30,
    opts=pulumi.ResourceOptions(
        providers=[provider], aliases=[pulumi.Alias(name="pool")] if component != "pool" else None
    ),
)
"""


class PoolStack:
    """The pool's stack with what it is asked for."""

    def __init__(self, folder: Path, cluster: Cluster) -> None:
        self.pulumi = ProjectStack(folder, ALONE + PROGRAM)
        self.pulumi.secrets.add(json.loads(cluster.kubeconfig.read_text())["users"][0]["user"]["client-key-data"])
        self.cluster = cluster
        self.pool: dict[str, Any] = {
            "name": "gpu",
            "size": 2,
            "spares": 1,
            "backend": {"kind": "warm", "node_selector": {"fleet": "a"}},
            "deadline_seconds": 45,
            "drain_deadline_seconds": 5,
        }

    def ask(self, **changes: Any) -> None:
        self.pool |= changes
        wanted = {"kubeconfig": str(self.cluster.kubeconfig), "pool": self.pool}
        (self.pulumi.folder / "wanted.json").write_text(json.dumps(wanted))

    def capacity(self) -> dict[str, Any]:
        found = self.pulumi.resources("PoolCapacity")
        assert len(found) == 1
        return found[0]
