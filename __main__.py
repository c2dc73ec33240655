"""The platform's table of contents: from the stack's config to a cluster that heals itself."""

from __future__ import annotations

import pulumi

from components import settings
from components.cluster import Cluster
from components.gpu_node_pool import Access, GpuNodePool
from components.login import Login
from components.people import People
from components.prerequisites import Prerequisites
from components.remediation import Remediation
from components.slurm import Slurm
from components.slurm_operator import SlurmOperator
from components.storage import Storage

config = settings.load()

cluster = Cluster("cluster", config.cluster)
looked = Prerequisites(config, cluster.kubeconfig, pulumi.ResourceOptions(parent=cluster))
on_cluster = pulumi.ResourceOptions(providers=[cluster.provider], depends_on=[cluster, looked])


def after(*resources: pulumi.Resource) -> pulumi.ResourceOptions:
    """Made after these, and so destroyed before them."""
    return pulumi.ResourceOptions.merge(on_cluster, pulumi.ResourceOptions(depends_on=list(resources)))


storage = Storage("storage", config.storage, on_cluster)
people = People("people", config.users, config.groups, on_cluster)
operator = SlurmOperator("operator", config.operator, on_cluster)
remediation = Remediation("remediation", config, on_cluster)
slurm = Slurm("slurm", config.slurm, config.images, after(storage, people, operator, remediation))
login = Login("login", config.login, config.images, after(slurm.rest, storage, people))
for pool in config.pools:
    GpuNodePool(
        f"pool-{pool.name}",
        pool,
        config.images,
        access=Access(cluster.kubeconfig, remediation.kinds, cluster.crusoe_id),
        grace_seconds=config.slurm.grace_seconds,
        dry_run=config.remediation.dry_run,
        workers_after=[slurm.rest, login.nodes, storage, people],
        opts=after(remediation),
    )

pulumi.export("login", pulumi.Output.concat("ssh ", login.address))
pulumi.export("kubeconfig", cluster.kubeconfig)
pulumi.export("pools", [pool.name for pool in config.pools])
