"""A GPU pool: what is wanted of it (GpuPool), its Slurm workers (NodeSet), and its machines (PoolCapacity)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import pulumi
import pulumi_kubernetes as k8s

from components.crusoe import declare_node_pool
from components.manifest import own_metadata, raw
from components.names import HOME_CLAIM, SLURM, SLURM_NAMESPACE
from components.node_checks import check_mount, check_volume, node_state_mount, node_state_volume
from components.people import accounts_mount, accounts_volume
from components.pool_capacity import PoolCapacity
from components.slinky import container, slinky
from sparewheel.api.gpu_pool import GpuPoolSpec, NodeSetRef
from sparewheel.api.names import (
    API_VERSION,
    GPU_RESOURCE,
    LABEL_POOL,
    LABEL_ROLE,
    NAMESPACE,
    REASON_REGISTERS,
    ROLE_ACTIVE,
    ROLE_SPARE,
    SPARE_WARM,
    TAINT_SPARE,
)
from sparewheel.api.spare_test import SpareTestRule
from stacks.faults import fault_policies
from stacks.platform import Images
from stacks.pools import Pool

REGISTERS_DRAINED = ("State=DRAIN", f"Reason={REASON_REGISTERS}")
TERMINATION_MARGIN_SECONDS = 30
"""A worker pod may live this much longer than its jobs' grace, to end them and say goodbye."""


def pool_spec(pool: Pool, grace_seconds: int, *, dry_run: bool) -> GpuPoolSpec:
    """What the cluster is told about the pool."""
    return GpuPoolSpec(
        size=pool.size,
        spares=pool.spares,
        spare_confidence=pool.spare_confidence,
        gpus_per_node=pool.gpus_per_node,
        hcas_per_node=pool.hcas_per_node,
        backend=pool.backend,
        node_set_ref=NodeSetRef(namespace=SLURM_NAMESPACE, name=pool.name),
        grace_seconds=grace_seconds,
        driver=pool.driver,
        max_concurrent_replacements=pool.max_concurrent_replacements,
        budget=pool.budget.spec(),
        node_lost_seconds=pool.node_lost_seconds,
        node_removed_seconds=pool.node_removed_seconds,
        drain_deadline_seconds=pool.drain_deadline_seconds,
        warm_spares=pool.keeps_warm_spares,
        spare_test=_spare_test(pool),
        dry_run=pool.dry_run or dry_run,
        fault_policies=fault_policies(pool.fault_overrides),
        ladder=None if pool.ladder is None else pool.ladder.rule(),
        replace=list(pool.replace),
    )


def wire(spec: GpuPoolSpec, node_pool_id: pulumi.Input[str] | None = None) -> dict[str, Any]:
    """As the API server takes it. ``node_pool_id``: of the node pool that the stack makes."""
    body = spec.model_dump(mode="json", by_alias=True, exclude_none=True)
    if node_pool_id is not None:
        body["backend"] = {**body["backend"], "nodePoolId": node_pool_id}
    return body


def _spare_test(pool: Pool) -> SpareTestRule | None:
    """None where there is nothing to be tested."""
    rule = pool.spare_test
    if not rule.enabled or not (pool.keeps_warm_spares or rule.cold):
        return None
    return SpareTestRule(**rule.model_dump())


def node_set_spec(pool: Pool, images: Images, grace_seconds: int) -> dict[str, Any]:
    """One worker per node that is in the pool and active; Slurm's partition has the pool's name.

    With warm spares there is one per spare too. A worker then registers drained, and takes work only once the
    controller knows where it runs: a job never lands on a spare.
    """
    limits: dict[str, Any] = {GPU_RESOURCE: pool.gpus_per_node, **pool.worker_resources}
    if pool.cpus is not None:
        limits["cpu"] = pool.cpus
    if pool.memory is not None:
        limits["memory"] = pool.memory
    registers = REGISTERS_DRAINED if pool.keeps_warm_spares else ()
    return {
        "controllerRef": {"name": SLURM},
        "replicas": pool.size + (pool.spares if pool.keeps_warm_spares else 0),
        "slurmd": container(
            images,
            images.slurmd,
            resources={"limits": limits},
            volumeMounts=[
                accounts_mount(),
                {"name": "home", "mountPath": "/home"},
                node_state_mount(),
                check_mount(),
            ],
        ),
        "logfile": container(images, images.base),
        "partition": {"enabled": True, "config": pool.partition.config()},
        "extraConf": " ".join([f"Gres=gpu:{pool.gpus_per_node}", *registers]),
        "template": {
            "metadata": {"labels": dict(pool.worker_labels)},
            "spec": {
                **_where(pool),
                "terminationGracePeriodSeconds": grace_seconds + TERMINATION_MARGIN_SECONDS,
                "volumes": [
                    accounts_volume(),
                    {"name": "home", "persistentVolumeClaim": {"claimName": HOME_CLAIM}},
                    node_state_volume(),
                    check_volume(),
                ],
            },
        },
    }


def _where(pool: Pool) -> dict[str, Any]:
    """Nodes that a worker may run on: those that serve, and warm spares that passed their checks."""
    gpus = {"key": GPU_RESOURCE, "operator": "Exists", "effect": "NoSchedule"}
    if not pool.keeps_warm_spares:
        selector = {LABEL_POOL: pool.name, LABEL_ROLE: ROLE_ACTIVE, **pool.node_selector}
        return {"nodeSelector": selector, "tolerations": [gpus]}
    roles = {"key": LABEL_ROLE, "operator": "In", "values": [ROLE_ACTIVE, ROLE_SPARE]}
    terms = {"nodeSelectorTerms": [{"matchExpressions": [roles]}]}
    spare = {"key": TAINT_SPARE, "operator": "Equal", "value": SPARE_WARM, "effect": "NoSchedule"}
    return {
        "nodeSelector": {LABEL_POOL: pool.name, **pool.node_selector},
        "affinity": {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": terms}},
        "tolerations": [gpus, spare],
    }


@dataclass(frozen=True, slots=True)
class Access:
    """The cluster that a pool is in."""

    kubeconfig: pulumi.Input[str]
    kinds: pulumi.Input[str]
    """Which version of our kinds it serves."""
    crusoe_id: pulumi.Input[str] | None = None
    """Its id, where it is one of Crusoe's that the stack makes."""


class GpuNodePool(pulumi.ComponentResource):
    """Ready when ``size`` nodes are active and their workers are registered in Slurm.

    ``workers_after``: what Slurm's part of the pool needs. The machines don't, so the controller joins them meanwhile.
    """

    def __init__(
        self,
        name: str,
        pool: Pool,
        images: Images,
        *,
        access: Access,
        grace_seconds: int,
        dry_run: bool = False,
        workers_after: Sequence[pulumi.Resource] = (),
        opts: pulumi.ResourceOptions | None = None,
    ) -> None:
        super().__init__("sparewheel:pool:GpuNodePool", name, None, opts)
        spec = wire(pool_spec(pool, grace_seconds, dry_run=dry_run), declare_node_pool(pool, access.crusoe_id, self))
        wanted = k8s.apiextensions.CustomResource(
            f"gpupool-{pool.name}",
            api_version=API_VERSION,
            kind="GpuPool",
            metadata=raw(own_metadata(pool.name, access.kinds)),
            spec=spec,
            opts=pulumi.ResourceOptions(parent=self, protect=pool.protect),
        )
        workers = slinky("NodeSet", pool.name, node_set_spec(pool, images, grace_seconds), self, workers_after)
        PoolCapacity(
            f"capacity-{pool.name}",
            kubeconfig=access.kubeconfig,
            namespace=NAMESPACE,
            pool=pool.name,
            spec=spec,
            deadline_seconds=pool.deadline_seconds,
            opts=pulumi.ResourceOptions(parent=self, depends_on=[wanted, workers], protect=pool.protect),
        )
        self.register_outputs({})
