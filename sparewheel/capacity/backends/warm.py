"""Backend ``warm``: spares are Nodes already in the cluster; a host moves between roles by labels and taints alone."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from sparewheel.api.names import (
    LABEL_HOST,
    LABEL_POOL,
    LABEL_ROLE,
    ROLE_QUARANTINED,
    ROLE_SPARE,
    TAINT_JOINING,
    TAINT_QUARANTINED,
    TAINT_SPARE,
)
from sparewheel.capacity.nodes import capacity_of, edit_node, labels_of, placing, uncordoning
from sparewheel.capacity.port import CapacityError, Inventory, JoinRequest, Proof, Taint
from sparewheel.kube.port import NODE, Json, Kube, NotFoundError

LABEL_INSTANCE_TYPE: Final = "node.kubernetes.io/instance-type"
LABEL_FABRIC_BLOCK: Final = "topology.kubernetes.io/block"
LABEL_NVLINK_DOMAIN: Final = "nvidia.com/gpu.clique"
"""Cluster and clique of the node's NVLink fabric, as NVIDIA's GPU feature discovery labels it."""


def _described(node: Json) -> Json:
    """What the inventory says of a Node."""
    kept = (LABEL_INSTANCE_TYPE, LABEL_FABRIC_BLOCK, LABEL_NVLINK_DOMAIN)
    labels = labels_of(node)
    return {
        "metadata": {"name": node["metadata"]["name"], "labels": {key: labels[key] for key in kept if key in labels}},
        "spec": {"providerID": node.get("spec", {}).get("providerID")},
        "status": {"capacity": node.get("status", {}).get("capacity")},
    }


@dataclass(frozen=True, slots=True)
class WarmProvider:
    """``node_selector`` says which Nodes are the pool's, spare or not."""

    kube: Kube
    node_selector: Mapping[str, str]

    @property
    def keeps_node(self) -> bool:
        return True

    async def list_hosts(self) -> list[Inventory]:
        listing = await self.kube.list(NODE, label_selector=self.node_selector, keep=_described)
        return [
            Inventory(
                host=str(node["metadata"]["name"]),
                provider_id=str(node.get("spec", {}).get("providerID") or f"node://{node['metadata']['name']}"),
                instance_type=labels_of(node).get(LABEL_INSTANCE_TYPE, ""),
                fabric_block=labels_of(node).get(LABEL_FABRIC_BLOCK, ""),
                nvlink_domain=labels_of(node).get(LABEL_NVLINK_DOMAIN, ""),
                resources=capacity_of(node),
            )
            for node in listing.items
        ]

    async def other_healer(self) -> str:
        return ""

    async def find_more(self, lacking: int) -> str:
        """The Nodes with the label are all there is."""
        del lacking
        return ""

    async def power_on(self, host: str) -> None:
        """A warm node is on; only that it is the pool's is checked."""
        await self._edit(host, {}, (), ())

    async def join(self, request: JoinRequest) -> None:
        if request.node_name != request.host:
            raise CapacityError(f"node {request.host} can't join as {request.node_name}: a warm node keeps its name")
        keep = {taint.key for taint in request.taints}
        remove = tuple(key for key in (TAINT_SPARE, TAINT_QUARANTINED, TAINT_JOINING) if key not in keep)
        await self._edit(request.host, request.labels, request.taints, remove)
        await self._uncordon(request.host)

    async def prove_off(self, host: str, *, power_off: bool) -> Proof:
        """Nothing here can see or switch the machine's power."""
        del host, power_off
        return Proof.UNKNOWN

    async def reboot(self, host: str) -> None:
        raise CapacityError(f"node {host} can't be rebooted by the warm backend; reboot it where it is run")

    async def leave(self, host: str) -> None:
        await self._edit(host, {LABEL_ROLE: ROLE_SPARE}, [Taint(TAINT_SPARE)], (TAINT_JOINING,))
        await self._uncordon(host)

    async def quarantine(self, host: str, reason: str) -> None:
        del reason  # it is in the GpuHost's status; a taint's value has no room for a sentence
        await self._edit(host, {LABEL_ROLE: ROLE_QUARANTINED}, [Taint(TAINT_QUARANTINED)], (TAINT_JOINING, TAINT_SPARE))

    async def release(self, host: str) -> None:
        ours = {LABEL_POOL: None, LABEL_HOST: None, LABEL_ROLE: None}
        await self._edit(host, ours, [Taint(TAINT_SPARE)], (TAINT_JOINING, TAINT_QUARANTINED))
        await self._uncordon(host)

    async def _edit(
        self, host: str, labels: Mapping[str, str | None], add: Sequence[Taint], remove: Sequence[str]
    ) -> None:
        place = placing(labels, add, remove)

        def change(node: Json) -> Json | None:
            present = labels_of(node)
            if any(present.get(key) != value for key, value in self.node_selector.items()):
                raise CapacityError(
                    f"node {host} lacks the labels {dict(self.node_selector)}; it is none of the pool's"
                )
            return place(node)

        try:
            await edit_node(self.kube, host, change)
        except NotFoundError as error:
            raise CapacityError(f"node {host} is not in the cluster; a warm host is a Node that is there") from error

    async def _uncordon(self, host: str) -> None:
        await edit_node(self.kube, host, uncordoning)
