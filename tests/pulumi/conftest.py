"""A real API server for each module of this tier: each stack brings its own CRDs."""

from __future__ import annotations

import base64
import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from lab.api_server import running_api_server
from tests.pulumi.cluster import Cluster, Operator
from tests.pulumi.pool_stack import PoolStack
from tests.pulumi.stack import ProjectStack

NODES = 8


@pytest.fixture(scope="module", autouse=True)
def nothing_shows_a_secret() -> Iterator[None]:
    """After each module: no output of Pulumi and no file of a backend shows a secret that was planted."""
    ProjectStack.made.clear()
    yield
    assert [leak for stack in ProjectStack.made for leak in stack.leaks()] == []


@pytest.fixture(scope="module")
def api_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """Path of an administrator's kubeconfig."""
    with running_api_server(tmp_path_factory.mktemp("apiserver")) as kubeconfig:
        yield _whole(kubeconfig)


@pytest.fixture(scope="module")
def cluster(api_server: Path) -> Iterator[Cluster]:
    """Healthy nodes with their agents, and an operator that makes workers on those that serve."""
    cluster = Cluster(api_server)
    cluster.prepare(NODES)
    operator = Operator(cluster, NODES)
    operator.start()
    yield cluster
    operator.stop.set()
    operator.join()


@pytest.fixture(scope="module")
def pool(cluster: Cluster, tmp_path_factory: pytest.TempPathFactory) -> PoolStack:
    """A built pool; a module's tests go on from one another's pool but each asks for what it needs."""
    stack = PoolStack(tmp_path_factory.mktemp("pool"), cluster)
    stack.ask()
    stack.pulumi.up()
    return stack


@pytest.fixture
def two_nodes(pool: PoolStack) -> PoolStack:
    """For tests that count: the pool as it was built, whatever a test before asked for."""
    if pool.pool["size"] != 2 or pool.pool.get("replace") or pool.cluster.count("Active") != 2:
        pool.ask(size=2, replace=[])
        pool.pulumi.up()
    return pool


def _whole(kubeconfig: Path) -> Path:
    """The same with certificates and key inside: Pulumi hands a kubeconfig around as text."""
    config = json.loads(kubeconfig.read_text())
    for section, names in (("clusters", ["certificate-authority"]), ("users", ["client-certificate", "client-key"])):
        entry = config[section][0][section[:-1]]
        for name in names:
            content = (kubeconfig.parent / str(entry.pop(name))).read_bytes()
            entry[f"{name}-data"] = base64.b64encode(content).decode()
    path = kubeconfig.parent / "whole.conf"
    path.write_text(json.dumps(config))
    return path
