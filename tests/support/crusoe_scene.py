"""A pool of Crusoe's VMs, its Nodes, and providers for it: what the backend's tests stand on."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from lab.standins.crusoe.cloud import Pool
from sparewheel.api.names import LABEL_POOL, TAINT_JOINING
from sparewheel.capacity.backends.crusoe import CrusoeProvider
from sparewheel.capacity.port import JoinRequest, Taint
from sparewheel.kube.memory import MemoryKube
from sparewheel.kube.port import NODE, Json
from tests.support.crusoe_yard import (
    CREDENTIALS,
    ORGANIZATION,
    RESERVATION,
    CrusoeYard,
)

RESERVED = {"reservation": {"organization_id": ORGANIZATION, "reservation_id": RESERVATION}}


@dataclass
class Scene:
    yard: CrusoeYard
    kube: MemoryKube

    def provider(self, pool: Pool, wanted: int, **more: Any) -> CrusoeProvider:
        return CrusoeProvider(
            self.yard.backend(pool, **more), self.kube, self.yard.clock, CREDENTIALS.secret_key, wanted
        )

    def reserve(self, free: int) -> None:
        found = {"organization": ORGANIZATION, "id": RESERVATION, "quantity": 8, "used_quantity": 8 - free}
        self.yard.cloud.reservations[RESERVATION] = found

    def node(self, name: str) -> Json:
        node = self.kube.peek(NODE, name)
        assert node is not None
        return node

    def later(self, seconds: float) -> None:
        self.yard.clock.seconds += seconds
        self.yard.cloud.settle()

    def changes(self) -> list[str]:
        return [line for line in self.yard.server.seen if not line.startswith("GET")]


def joining(host: str) -> JoinRequest:
    return JoinRequest(host, host, {LABEL_POOL: "gpu"}, [Taint(TAINT_JOINING)])
