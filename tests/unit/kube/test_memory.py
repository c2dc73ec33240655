"""The in-memory Kubernetes keeps the port's contract, and can be told to fail."""

from __future__ import annotations

import pytest

from sparewheel.kube.memory import MemoryKube
from sparewheel.kube.port import CONFIG_MAP, NODE, POD, ConflictError, GoneError, NotFoundError, UnavailableError
from tests.kube_contract import SPACE, KubeContract, config_map, pod


@pytest.fixture
def kube() -> MemoryKube:
    return MemoryKube()


class TestMemoryKube(KubeContract):
    pass


async def test_a_watch_from_a_forgotten_version_is_gone(kube: MemoryKube) -> None:
    start = (await kube.list(CONFIG_MAP, SPACE)).resource_version
    kube.end_watches(expire=True)
    with pytest.raises(GoneError):
        await anext(kube.watch(CONFIG_MAP, start, SPACE))


async def test_a_write_may_take_effect_although_it_fails(kube: MemoryKube) -> None:
    kube.fail(UnavailableError("cut"), "create", CONFIG_MAP, when="after")
    with pytest.raises(UnavailableError):
        await kube.create(CONFIG_MAP, config_map("a"), SPACE)
    with pytest.raises(ConflictError):
        await kube.create(CONFIG_MAP, config_map("a"), SPACE)


async def test_a_fault_before_the_write_leaves_nothing(kube: MemoryKube) -> None:
    kube.fail(UnavailableError("cut"), "create", CONFIG_MAP)
    with pytest.raises(UnavailableError):
        await kube.create(CONFIG_MAP, config_map("a"), SPACE)
    await kube.create(CONFIG_MAP, config_map("a"), SPACE)


async def test_pods_of_a_dead_node_linger_until_the_node_goes(kube: MemoryKube) -> None:
    kube.put(NODE, {"metadata": {"name": "n"}})
    kube.put(POD, pod("p", "n"), SPACE)
    kube.dead_nodes.add("n")
    await kube.delete(POD, "p", SPACE)
    assert (await kube.get(POD, "p", SPACE))["metadata"]["deletionTimestamp"]
    await kube.delete(NODE, "n")
    with pytest.raises(NotFoundError):
        await kube.get(POD, "p", SPACE)


async def test_a_write_that_changes_nothing_makes_no_version(kube: MemoryKube) -> None:
    created = await kube.create(CONFIG_MAP, config_map("a"), SPACE)
    again = await kube.merge_patch(CONFIG_MAP, "a", {"data": {"key": "one"}}, SPACE)
    assert again["metadata"]["resourceVersion"] == created["metadata"]["resourceVersion"]
