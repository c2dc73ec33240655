"""What a cluster lacks: each thing is one sentence with how to get it; what can't be looked up is never "there"."""

from __future__ import annotations

import pytest

from sparewheel.kube.memory import MemoryKube
from sparewheel.kube.port import NODE, NotFoundError, Resource, UnavailableError
from sparewheel.kube.prerequisites import (
    ADMISSION_POLICY,
    ISSUER,
    STORAGE_CLASS,
    Expected,
    NodesWanted,
    missing,
)
from tests.support.clocks import StillClock

GPUS = NodesWanted("h100", {"type": "gpu"}, {"nvidia.com/gpu": 8, "rdma/hca_shared": 1})
ALL = Expected(("fast", "shared", "fast"), cert_manager=True, nodes=[GPUS])


@pytest.fixture
def kube() -> MemoryKube:
    """A cluster that has it all."""
    kube = MemoryKube(clock=StillClock())
    for name in ("fast", "shared"):
        kube.put(STORAGE_CLASS, {"metadata": {"name": name}})
    for name, gpus in (("n1", "0"), ("n2", "8")):  # n1 is ill, and no reason to stop
        status = {"allocatable": {"nvidia.com/gpu": gpus, "rdma/hca_shared": "63"}}
        kube.put(NODE, {"metadata": {"name": name, "labels": {"type": "gpu"}}, "status": status})
    return kube


async def test_nothing_is_missing(kube: MemoryKube) -> None:
    assert await missing(kube, ALL) == []
    assert await missing(kube, Expected()) == []


async def test_kubernetes_that_is_too_old(kube: MemoryKube) -> None:
    kube.fail(NotFoundError("404"), "list", ADMISSION_POLICY)
    (said,) = await missing(kube, Expected())
    assert "use Kubernetes 1.30 or newer" in said


async def test_cert_manager_is_looked_for_only_where_it_is_needed(kube: MemoryKube) -> None:
    kube.fail(NotFoundError("404"), "list", ISSUER)
    assert await missing(kube, Expected()) == []
    (said,) = await missing(kube, Expected(cert_manager=True))
    assert "cert-manager isn't installed" in said
    assert "operator.cert_manager" in said


async def test_a_storage_class_is_named_with_those_that_there_are(kube: MemoryKube) -> None:
    assert await missing(kube, Expected(("fats",))) == ["there is no StorageClass fats: there are fast, shared"]


async def test_no_storage_class_at_all() -> None:
    (said,) = await missing(MemoryKube(clock=StillClock()), Expected(("fast",)))
    assert said == "there is no StorageClass fast: there is none at all; install a storage driver"


async def test_gpu_and_network_operators_are_named_by_what_no_node_has(kube: MemoryKube) -> None:
    wanted = NodesWanted("h100", {"type": "gpu"}, {"nvidia.com/gpu": 16, "rdma/other": 1})
    gpus, network = await missing(kube, Expected(nodes=[wanted]))
    assert "asks for 16 nvidia.com/gpu and no node has more than 8: install NVIDIA's GPU operator" in gpus
    assert "and none of its 2 node(s) has any: install the network operator" in network


async def test_a_selector_that_fits_no_node(kube: MemoryKube) -> None:
    (said,) = await missing(kube, Expected(nodes=[NodesWanted("h100", {"type": "gpus"}, {"nvidia.com/gpu": 8})]))
    assert said == "pool h100: no node has the label type=gpus; see 'kubectl get nodes --show-labels'"


@pytest.mark.parametrize("resource", [ADMISSION_POLICY, ISSUER, STORAGE_CLASS, NODE], ids=lambda one: one.kind)
async def test_a_look_that_failed_is_an_error(kube: MemoryKube, resource: Resource) -> None:
    kube.fail(UnavailableError("no answer"), "list", resource)
    with pytest.raises(UnavailableError):
        await missing(kube, ALL)
