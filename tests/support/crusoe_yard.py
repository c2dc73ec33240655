"""A played Crusoe Cloud on loopback, and a client for it on the same clock."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any, Final

from lab.standins.crusoe.cloud import Cloud, Json, Play, Pool
from lab.standins.crusoe.server import Server, serving
from sparewheel.crusoe.client import CrusoeClient
from sparewheel.crusoe.signing import Credentials
from sparewheel.crusoe.transport import Transport
from tests.support.clocks import StillClock

PROJECT: Final = "09ae8411-0fbb-411c-898c-2b8f19622ae1"
CLUSTER: Final = "1d3c5f6e-0000-4000-8000-000000000001"
ORGANIZATION: Final = "1d3c5f6e-0000-4000-8000-000000000002"
RESERVATION: Final = "1d3c5f6e-0000-4000-8000-000000000003"
H100: Final = "h100-80gb-sxm-ib.8x"
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
        return self.cloud.add_pool("gpu", CLUSTER, H100, vms, **more)

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
