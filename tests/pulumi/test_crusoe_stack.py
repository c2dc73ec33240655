"""The whole stack on Crusoe Cloud under the real engine, from nothing; test_crusoe_resources takes it apart again."""

from __future__ import annotations

import json
import queue
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from lab.standins.crusoe.cloud import Cloud, Vm
from sparewheel.kube.port import KubeError
from tests.components.conftest import stack_config
from tests.pulumi.cluster import Cluster, Operator, boot_node
from tests.pulumi.stack import ProjectStack
from tests.support.crusoe_thread import cloud_in_thread
from tests.support.crusoe_yard import CREDENTIALS, H100, PROJECT, SPARE_TAINTS

pytestmark = [pytest.mark.slow, pytest.mark.timeout(300)]
SECRETS = {"crusoe-key": CREDENTIALS.secret_key, "oncall-url": "CANARY-url"}


def config(url: str) -> dict[str, Any]:
    """As stacks/Pulumi.crusoe.yaml, with the played service's address and the operator's stand-in."""
    raw = stack_config()
    raw["cluster"] = {
        "kind": "crusoe",
        "name": "training",
        "project_id": PROJECT,
        "access": {"key_id": CREDENTIALS.access_key_id, "key_ref": "crusoe-key"},
        "location": "us-east1-a",
        "version": "1.33.4-cmk.20",
        "system": {"product_name": "c1a.8x", "count": 1},
        "url": url,
    }
    raw["pools"] = [
        {
            "name": "gpu",
            "size": 2,
            "spares": 1,
            "node_pool": {"product_name": H100},
            "backend": {"kind": "crusoe", "node_name": "{name}"},
            "deadline_seconds": 60,
            "drain_deadline_seconds": 5,
        }
    ]
    raw["remediation"]["keep_records"] = False
    return raw


class Kubelets(threading.Thread):
    """Registers the Node of each VM that boots; until the stack has made our kinds there is no agent's report."""

    def __init__(self, cluster: Cluster, operator: Operator) -> None:
        super().__init__(daemon=True)
        self.cluster, self.operator = cluster, operator
        self.booted: queue.Queue[str | None] = queue.Queue()

    def boot(self, vm: Vm) -> None:
        if vm.type == H100:
            self.booted.put(vm.name)

    def run(self) -> None:
        while (name := self.booted.get()) is not None:
            try:
                self.cluster.do(lambda kube, name=name: boot_node(kube, name, list(SPARE_TAINTS)))
                self.operator.nodes.append(name)
            except KubeError:
                self.booted.put(name)


@contextmanager
def machines(kubeconfig: Path, cloud: Cloud) -> Iterator[Cluster]:
    """A cluster whose GPU nodes are the cloud's VMs."""
    cluster = Cluster(kubeconfig)
    operator = Operator(cluster, 0)
    kubelets = Kubelets(cluster, operator)
    cloud.on_boot = kubelets.boot
    threads = (operator, kubelets)
    for thread in threads:
        thread.start()
    try:
        yield cluster
    finally:
        kubelets.booted.put(None)
        operator.stop.set()
        for thread in threads:
            thread.join()


def test_from_nothing_to_a_pool(api_server: Path, tmp_path: Path) -> None:
    with cloud_in_thread() as (cloud, url), machines(api_server, cloud) as cluster:
        cloud.stock["c1a.8x"] = 1
        cloud.play.kubeconfig = api_server.read_text()
        stack = ProjectStack(tmp_path)
        stack.secrets.add(CREDENTIALS.secret_key)
        stack.secrets.add(json.loads(api_server.read_text())["users"][0]["user"]["client-key-data"])
        stack.configure(config(url), SECRETS)
        stack.up()
        (made,) = cloud.clusters
        pools = {pool.name: (pool.count, pool.cluster) for pool in cloud.pools.values()}
        assert pools == {"gpu": (3, made), "training-system": (1, made)}
        assert sorted(cluster.phases().values()) == ["Active", "Active", "Spare"]
        stack.good("preview", "--expect-no-changes")
