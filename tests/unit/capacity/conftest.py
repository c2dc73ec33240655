"""What tests of capacity share."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from lab.standins.crusoe.cloud import Play
from sparewheel.kube.memory import MemoryKube
from tests.support.crusoe_scene import Scene
from tests.support.crusoe_yard import crusoe_yard
from tests.support.driver_cluster import Cluster, played
from tests.support.pool_world import World, new_world


@pytest.fixture
async def cluster(monkeypatch: pytest.MonkeyPatch) -> Cluster:
    return played(monkeypatch)


@pytest.fixture
def world() -> World:
    return new_world()


@pytest.fixture
async def scene() -> AsyncIterator[Scene]:
    async with crusoe_yard(Play(page_size=2)) as yard:
        kube = MemoryKube()
        yard.nodes_in(kube)
        yield Scene(yard, kube)
