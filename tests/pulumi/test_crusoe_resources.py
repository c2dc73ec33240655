"""Crusoe's dynamic resources under the real engine, against the played service: made, quiet, replaced, destroyed."""

from __future__ import annotations

from pathlib import Path

import pytest

from sparewheel.crusoe.declared import LABEL_DECLARED
from tests.pulumi.stack import ROOT, ProjectStack
from tests.support.crusoe_thread import cloud_in_thread
from tests.support.crusoe_yard import CLUSTER, CREDENTIALS, H100, PROJECT

pytestmark = [pytest.mark.slow, pytest.mark.timeout(180)]

PROGRAM = """
import sys

import pulumi

sys.path.insert(0, {root!r})

from components.crusoe_cluster import ClusterSettings, CrusoeCluster
from components.crusoe_resources import CrusoeHealer, CrusoeNodePool, PoolSettings

access = {{"url": {url!r}, "projectId": {project!r}, "keyId": {key_id!r}, "secretKey": {secret!r}}}
cluster = CrusoeCluster("training", access=access, cluster=ClusterSettings("us-east1-a", "1.33.4-cmk.20"))
CrusoeHealer("healer", access=access, cluster_id={cluster!r})
CrusoeNodePool("gpu", access=access, cluster_id=cluster.id, pool=PoolSettings({kind!r}, 2))
"""


def test_a_cluster_its_node_pool_and_its_healer(tmp_path: Path) -> None:
    with cloud_in_thread() as (cloud, url):
        filled = PROGRAM.format(
            root=str(ROOT), url=url, project=PROJECT, key_id=CREDENTIALS.access_key_id,
            secret=CREDENTIALS.secret_key, cluster=CLUSTER, kind=H100,
        )  # fmt: skip
        stack = ProjectStack(tmp_path, filled)
        row = cloud.auto_clusters[CLUSTER]["remediation_configs"]
        stack.up()
        (pool,) = cloud.pools.values()
        assert (pool.count, row[0]["effective_action"]) == (2, "OFF")
        pool.count = 3  # healing took one more
        stack.is_quiet()
        assert CREDENTIALS.secret_key not in str(stack.state())

        (found,) = stack.resources("CrusoeNodePool")
        before = pool.labels[LABEL_DECLARED]
        stack.up("--target-replace", str(found["urn"]))
        assert pool.id in cloud.pools
        assert pool.labels[LABEL_DECLARED] != before

        stack.destroy()
        assert (cloud.clusters, cloud.pools, row[0]["effective_action"]) == ({}, {}, "REPLACE_NODE")
