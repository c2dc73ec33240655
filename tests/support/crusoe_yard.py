"""A played Crusoe Cloud on loopback, and a client for it on the same clock."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any, Final

from lab.standins.crusoe.cloud import Cloud, Json, Play, Pool, Vm
from lab.standins.crusoe.server import Server, serving
from sparewheel.api.gpu_pool import CrusoeBackend
from sparewheel.api.names import GPU_RESOURCE, TAINT_SPARE
from sparewheel.crusoe.client import CrusoeClient
from sparewheel.crusoe.signing import Credentials
from sparewheel.crusoe.transport import Transport
from sparewheel.kube.memory import MemoryKube
from sparewheel.kube.port import NODE
from tests.support.clocks import StillClock

PROJECT: Final = "09ae8411-0fbb-411c-898c-2b8f19622ae1"
CLUSTER: Final = "1d3c5f6e-0000-4000-8000-000000000001"
ORGANIZATION: Final = "1d3c5f6e-0000-4000-8000-000000000002"
RESERVATION: Final = "1d3c5f6e-0000-4000-8000-000000000003"
H100: Final = "h100-80gb-sxm-ib.8x"
SPARE_TAINTS: Final = ({"key": TAINT_SPARE, "effect": "NoSchedule"},)
CREDENTIALS: Final = Credentials("R7p5XctCQMuGlpVBmVdqzA", "HrbZ3VTUb2YNAq53Md1EsA")


@dataclass(slots=True)
class CrusoeYard:
    cloud: Cloud
    server: Server
    clock: StillClock

    def client(self, *, call_seconds: float = 60.0, operation_seconds: float = 600.0, **more: Any) -> CrusoeClient:
        credentials = more.pop("credentials", CREDENTIALS)
        transport = Transport(
            more.pop("url", self.server.url), credentials, self.clock, call_seconds=call_seconds, random=lambda: 1.0
        )
        return CrusoeClient(transport, PROJECT, self.clock, operation_seconds)

    def pool(self, vms: int, *, stock: int = 0, **more: Any) -> Pool:
        """A pool of ``vms`` with ``stock`` more hosts free."""
        self.cloud.stock[H100] = vms + stock
        more.setdefault("taints", list(SPARE_TAINTS))
        return self.cloud.add_pool("gpu", CLUSTER, H100, vms, **more)

    def backend(self, pool: Pool, **more: Any) -> CrusoeBackend:
        return CrusoeBackend.model_validate(
            {
                "project_id": PROJECT,
                "node_pool_id": pool.id,
                "access": {"key_id": CREDENTIALS.access_key_id, "key_ref": {"name": "keys", "key": "crusoe"}},
                "node_name": "{name}",
                "url": self.server.url,
                **more,
            }
        )

    def nodes_in(self, kube: MemoryKube) -> None:
        """The VMs' kubelets register, now and at every boot; a Node that is there has another boot."""

        def boot(vm: Vm) -> None:
            node = kube.peek(NODE, vm.name) or {"metadata": {"name": vm.name}, "spec": {"taints": list(SPARE_TAINTS)}}
            conditions = [{"type": "Ready", "status": "True"}]
            boot_id = f"{vm.id}-{vm.boots}"
            allocatable = {GPU_RESOURCE: "8"}
            node["status"] = {
                "conditions": conditions,
                "nodeInfo": {"bootID": boot_id},
                "allocatable": allocatable,
            }
            kube.put(NODE, node)

        self.cloud.on_boot = boot
        for vm in self.cloud.vms.values():
            boot(vm)

    def auto(self, action: str, *, fallback: bool | None = None) -> None:
        row = {"issue_name": "XID_79", "default_action": action, "user_override": "", "effective_action": action}
        config: Json = {"remediation_configs": [row], "updated_at": ""}
        if fallback is not None:
            config["fallback_to_project_reservations"] = fallback
        self.cloud.auto_clusters[CLUSTER] = config

    def asked(self, match: str) -> list[str]:
        return [line for line in self.server.seen if match in line]


@asynccontextmanager
async def crusoe_yard(play: Play | None = None) -> AsyncGenerator[CrusoeYard, None]:
    clock = StillClock()
    cloud = Cloud(clock, PROJECT, play)
    async with serving(cloud, CREDENTIALS) as server:
        yield CrusoeYard(cloud, server, clock)
