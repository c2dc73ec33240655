"""What a stack declares at Crusoe Cloud: its cluster, the one healer of its nodes, and their node pools."""

from __future__ import annotations

from dataclasses import dataclass

import pulumi

from components import settings
from components.crusoe_cluster import ClusterSettings, CrusoeCluster, CrusoeKubeconfig
from components.crusoe_resources import CrusoeHealer, CrusoeNodePool, PoolSettings
from sparewheel.api.gpu_pool import CrusoeBackend
from stacks.crusoe import CrusoeCluster as ClusterConfig
from stacks.pools import Pool


@dataclass(frozen=True, slots=True)
class Made:
    """A cluster of Crusoe's that the stack makes."""

    cluster_id: pulumi.Output[str]
    kubeconfig: pulumi.Output[str]


def declare_cluster(config: ClusterConfig, parent: pulumi.Resource) -> Made:
    """Nodes for what must outlive GPU nodes come with it. Healing is ours before there is a GPU node."""
    access = _access(config)
    below = pulumi.ResourceOptions(parent=parent)
    kept = pulumi.ResourceOptions(parent=parent, protect=config.protect)
    cluster = CrusoeCluster(
        config.name,
        access=access,
        cluster=ClusterSettings(config.location, config.version, config.settings, config.adopt),
        opts=kept,
    )
    healer = CrusoeHealer(f"{config.name}-healer", access=access, cluster_id=cluster.id, opts=below)
    ready: list[pulumi.Resource] = [healer]
    if config.system is not None:
        ready.append(
            CrusoeNodePool(
                f"{config.name}-system",
                access=access,
                cluster_id=cluster.id,
                pool=PoolSettings(
                    config.system.product_name, config.system.count, node_taints=(), settings=config.system.settings
                ),
                opts=kept,
            )
        )
    kubeconfig = CrusoeKubeconfig(
        f"{config.name}-kubeconfig",
        access=access,
        cluster_id=cluster.id,
        opts=pulumi.ResourceOptions(parent=parent, depends_on=ready),
    )
    return Made(cluster.id, kubeconfig.kubeconfig)


def declare_node_pool(
    pool: Pool, cluster_id: pulumi.Input[str] | None, parent: pulumi.Resource
) -> pulumi.Output[str] | None:
    """The id of the node pool that the stack makes for a GPU pool; None where it makes none.

    Its VMs join as spares, so they take no work before they were checked.
    """
    wanted, backend = pool.node_pool, pool.backend
    if wanted is None or not isinstance(backend, CrusoeBackend):
        return None
    made = CrusoeNodePool(
        pool.name,
        access=_access(backend),
        cluster_id=wanted.cluster_id or cluster_id or "",
        pool=PoolSettings(
            wanted.product_name, pool.size + pool.spares, dict(wanted.node_labels), settings=wanted.settings
        ),
        opts=pulumi.ResourceOptions(parent=parent, protect=pool.protect),
    )
    return made.id.apply(lambda found: found.partition("@")[0])


def _access(config: ClusterConfig | CrusoeBackend) -> dict[str, pulumi.Input[str]]:
    return {
        "url": config.url,
        "projectId": config.project_id,
        "keyId": config.access.key_id,
        "secretKey": settings.secret(config.access.key_ref.key),
    }
