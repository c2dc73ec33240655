"""What a pool's machines look like to an API server that has no kubelets: Nodes, agents' reports, ready workers."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, TypeVar

import yaml

from sparewheel.api.base import format_time
from sparewheel.api.crd import crd_manifests
from sparewheel.api.names import LABEL_ROLE, ROLE_ACTIVE
from sparewheel.clock import SystemClock
from sparewheel.kube.access import from_file
from sparewheel.kube.client import KubeClient
from sparewheel.kube.install import apply, apply_crds
from sparewheel.kube.port import GPU_HOST, GPU_POOL, NAMESPACE_KIND, NODE, NODE_HEALTH, NODE_SET, POD, Json, KubeError

SLINKY_CRDS = Path(__file__).parents[2] / "lab/standins/slinky/manifests/crds"
REPORT_SECONDS = 1.0
Answer = TypeVar("Answer")


class Cluster:
    """Synchronous, since the tests wait for Pulumi's command line anyway."""

    def __init__(self, kubeconfig: Path) -> None:
        self.kubeconfig = kubeconfig

    def do(self, work: Callable[[KubeClient], Awaitable[Answer]]) -> Answer:
        async def run() -> Answer:
            async with KubeClient(from_file(self.kubeconfig)) as kube:
                return await work(kube)

        return asyncio.run(run())

    def prepare(self, nodes: int) -> None:
        """Kinds, namespaces, and healthy nodes ``n1`` and up with the label ``fleet=a``."""

        async def work(kube: KubeClient) -> None:
            slinky = [yaml.safe_load(path.read_text()) for path in sorted(SLINKY_CRDS.glob("*.yaml"))]
            await apply_crds(kube, [*crd_manifests(), *slinky])
            for name in ("slurm", "sparewheel"):
                await apply(kube, NAMESPACE_KIND, {"metadata": {"name": name}})
            for number in range(1, nodes + 1):
                await boot_node(kube, f"n{number}")

        self.do(work)

    def phases(self) -> dict[str, str]:
        async def work(kube: KubeClient) -> dict[str, str]:
            hosts = (await kube.list(GPU_HOST, "sparewheel")).items
            return {str(h["metadata"]["name"]): str(h.get("status", {}).get("phase", "")) for h in hosts}

        return self.do(work)

    def count(self, phase: str) -> int:
        return sum(found == phase for found in self.phases().values())

    def pool(self) -> dict[str, Any]:
        return self.do(lambda kube: kube.get(GPU_POOL, "gpu", "sparewheel"))

    def live(self) -> set[tuple[str, str]]:
        """Kind and uid of what a pool consists of: one that was made anew has another."""

        async def work(kube: KubeClient) -> set[tuple[str, str]]:
            kinds = ((GPU_POOL, "sparewheel"), (GPU_HOST, "sparewheel"), (NODE_SET, "slurm"), (POD, "slurm"))
            return {
                (kind.kind, str(found["metadata"]["uid"]))
                for kind, namespace in kinds
                for found in (await kube.list(kind, namespace)).items
            }

        return self.do(work)

    def edit_pool(self, spec: dict[str, Any]) -> None:
        """What somebody does by hand."""
        self.do(lambda kube: kube.merge_patch(GPU_POOL, "gpu", {"spec": spec}, "sparewheel"))

    def heal(self, bad: str, spare: str) -> None:
        """What the controller leaves behind: the bad host quarantined, the spare in its place."""

        async def work(kube: KubeClient) -> None:
            quarantined = {"phase": "Quarantined", "reason": "XID 79", "refusedBootId": f"boot-{bad}"}
            await kube.merge_patch(GPU_HOST, bad, {"status": quarantined}, "sparewheel", "status")
            active = {"phase": "Active", "nodeName": spare}
            await kube.merge_patch(GPU_HOST, spare, {"status": active}, "sparewheel", "status")

        self.do(work)


class Operator(threading.Thread):
    """What Slinky's operator does: a worker on each active node, drained in Slurm where the node is cordoned.

    The nodes' agents are played here too: a report counts only while it is seen to change.
    """

    def __init__(self, cluster: Cluster, nodes: int) -> None:
        super().__init__(daemon=True)
        self.cluster = cluster
        self.nodes = [f"n{number}" for number in range(1, nodes + 1)]
        self.stop = threading.Event()

    def run(self) -> None:
        self.cluster.do(self._operate_until_stopped)

    async def _operate_until_stopped(self, kube: KubeClient) -> None:
        reported = 0.0
        while not self.stop.is_set():
            with suppress(KubeError):
                await _operate(kube)
                if time.monotonic() - reported > REPORT_SECONDS:
                    await asyncio.gather(*[_report(kube, name) for name in self.nodes])
                    reported = time.monotonic()
            await asyncio.sleep(0.3)


async def _operate(kube: KubeClient) -> None:
    nodes = (await kube.list(NODE, label_selector={LABEL_ROLE: ROLE_ACTIVE})).items
    cordoned = {str(node["metadata"]["name"]): bool(node["spec"].get("unschedulable")) for node in nodes}
    pods = {str(pod["spec"]["nodeName"]): pod for pod in (await kube.list(POD, "slurm")).items}
    for name in pods.keys() - cordoned.keys():
        await kube.delete(POD, pods[name]["metadata"]["name"], "slurm", grace_seconds=0)
    for name, is_cordoned in cordoned.items():
        conditions = [_condition("Ready", "True"), _condition("SlurmNodeStateDrain", str(is_cordoned))]
        if name not in pods:
            labels = {"app.kubernetes.io/name": "slurmd", "app.kubernetes.io/instance": "gpu"}
            container = {"name": "slurmd", "image": "registry.example/slurmd:1"}
            spec = {"nodeName": name, "containers": [container]}
            await kube.create(POD, {"metadata": {"name": f"gpu-{name}", "labels": labels}, "spec": spec}, "slurm")
        elif [c["status"] for c in pods[name].get("status", {}).get("conditions", [])] == ["True", str(is_cordoned)]:
            continue
        await kube.merge_patch(POD, f"gpu-{name}", {"status": {"conditions": conditions}}, "slurm", "status")


def _condition(kind: str, status: str) -> dict[str, str]:
    return {"type": kind, "status": status}


async def boot_node(kube: KubeClient, name: str, taints: Sequence[Json] = ()) -> None:
    """What a kubelet and an agent say when a machine has come up."""
    await apply(kube, NODE, {"metadata": {"name": name, "labels": {"fleet": "a"}}, "spec": {"taints": list(taints)}})
    now = SystemClock().now()
    status = {
        "nodeInfo": _node_info(name),
        "conditions": [{"type": "Ready", "status": "True", "lastTransitionTime": now.strftime("%Y-%m-%dT%H:%M:%SZ")}],
        "capacity": {"nvidia.com/gpu": "8"},
        "allocatable": {"nvidia.com/gpu": "8"},
    }
    await kube.merge_patch(NODE, name, {"status": status}, subresource="status")
    await apply(kube, NODE_HEALTH, {"apiVersion": "sparewheel.dev/v1alpha1", "kind": "NodeHealth",
                                    "metadata": {"name": name}, "spec": {}})  # fmt: skip
    await _report(kube, name)


async def _report(kube: KubeClient, name: str) -> None:
    health = {
        "bootId": f"boot-{name}",
        "heartbeatTime": format_time(SystemClock().now()),
        "heartbeatIntervalSeconds": 3600,
        "gpus": {"expected": 8, "seen": 8},
        "jobsObservedTime": format_time(SystemClock().now()),
    }
    await kube.merge_patch(NODE_HEALTH, name, {"status": health}, subresource="status")


def _node_info(name: str) -> dict[str, str]:
    unknown = dict.fromkeys(
        (
            "machineID",
            "systemUUID",
            "kernelVersion",
            "osImage",
            "containerRuntimeVersion",
            "kubeletVersion",
            "kubeProxyVersion",
            "operatingSystem",
            "architecture",
        ),
        "",
    )
    return {**unknown, "bootID": f"boot-{name}"}
