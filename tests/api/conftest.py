"""A real API server for the whole session, and a client on it."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest

from lab.api_server import running_api_server
from sparewheel.api.crd import crd_manifests
from sparewheel.kube.access import from_file
from sparewheel.kube.client import KubeClient
from sparewheel.kube.install import apply_crds
from tests.api.slinky_cluster import Cluster, slinky_cluster


@pytest.fixture(scope="session")
def api_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """Path of an admin kubeconfig for a real etcd and kube-apiserver."""
    with running_api_server(tmp_path_factory.mktemp("apiserver")) as kubeconfig:
        yield kubeconfig


@pytest.fixture
async def kube(api_server: Path) -> AsyncIterator[KubeClient]:
    async with KubeClient(from_file(api_server)) as client:
        yield client


@pytest.fixture
async def crds(kube: KubeClient) -> None:
    """Our CRDs, established."""
    await apply_crds(kube, crd_manifests())


@pytest.fixture
async def cluster(api_server: Path, request: pytest.FixtureRequest) -> AsyncIterator[Cluster]:
    """A Slurm cluster's namespace with the stand-in for Slinky's operator at work on it."""
    async with slinky_cluster(api_server, request.node.name) as made:
        yield made
