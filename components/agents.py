"""The agents: one pod per GPU node, with a pool's number of GPUs to look for."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

import pulumi
import pulumi_kubernetes as k8s

from components.manifest import raw
from components.names import AGENT
from components.node_checks import node_state_mount, node_state_volume
from components.rbac import agent_access
from components.slinky import container
from sparewheel.api.names import (
    GPU_RESOURCE,
    LABEL_POOL,
    NAMESPACE,
    TAINT_FAULT,
    TAINT_JOINING,
    TAINT_QUARANTINED,
    TAINT_SPARE,
)
from stacks.config import StackConfig
from stacks.faults import agent_overrides
from stacks.pools import Pool


def agent_arguments(config: StackConfig, pool: Pool) -> list[str]:
    """The agent's command line."""
    agent = config.remediation.agent
    overrides = agent_overrides(pool.fault_overrides, config.remediation.fault_overrides)
    return [
        "python",
        "-m",
        "sparewheel.agent",
        "--host-root=/host",
        f"--kernel-log={agent.kernel_log}",
        f"--gpu-source={agent.gpu_source}",
        f"--expected-gpus={pool.gpus_per_node}",
        *([f"--expected-hcas={pool.hcas_per_node}"] if pool.hcas_per_node else []),
        f"--heartbeat-seconds={agent.heartbeat_interval_seconds:g}",
        f"--overrides={json.dumps(overrides, sort_keys=True)}",
        *(["--allow-drills"] if agent.allow_drills else []),
        *(["--dry-run"] if config.remediation.dry_run or pool.dry_run else []),
    ]


def helper_container(config: StackConfig) -> dict[str, Any]:
    """Off unless the stack says so: it acts on the host, at the controller's word alone."""
    return container(
        config.images,
        config.images.sparewheel,
        name="helper",
        command=["python", "-m", "sparewheel.agent.helper", "--host-root=/host"],
        env=[{"name": "NODE_NAME", "valueFrom": {"fieldRef": {"fieldPath": "spec.nodeName"}}}],
        resources={"requests": {"cpu": "5m", "memory": "30Mi"}, "limits": {"memory": "80Mi"}},
        securityContext={"privileged": True},
        volumeMounts=[host_mount(), node_state_mount(writes=True)],
    )


def host_mount() -> dict[str, Any]:
    return {"name": "host", "mountPath": "/host", "readOnly": True, "mountPropagation": "HostToContainer"}


def agent_pod(config: StackConfig, pool: Pool) -> dict[str, Any]:
    """Sees the host's root, its processes and its kernel log; stays on a node whatever taint of ours it carries."""
    taints = (TAINT_JOINING, TAINT_SPARE, TAINT_FAULT, TAINT_QUARANTINED, GPU_RESOURCE)
    return {
        "serviceAccountName": AGENT,
        "hostPID": True,
        "priorityClassName": "system-node-critical",
        "nodeSelector": {LABEL_POOL: pool.name},
        "tolerations": [{"key": key, "operator": "Exists"} for key in taints],
        "terminationGracePeriodSeconds": 5,
        "containers": [
            *([helper_container(config)] if config.remediation.agent.node_actions else []),
            container(
                config.images,
                config.images.sparewheel,
                name="agent",
                command=agent_arguments(config, pool),
                env=[
                    {"name": "NODE_NAME", "valueFrom": {"fieldRef": {"fieldPath": "spec.nodeName"}}},
                    {"name": "NVIDIA_VISIBLE_DEVICES", "value": "all"},
                    {"name": "NVIDIA_DRIVER_CAPABILITIES", "value": "utility"},
                ],
                resources={"requests": {"cpu": "20m", "memory": "40Mi"}, "limits": {"memory": "80Mi"}},
                securityContext={"privileged": True},
                volumeMounts=[
                    host_mount(),
                    node_state_mount(writes=True),
                ],
            ),
        ],
        "volumes": [{"name": "host", "hostPath": {"path": "/"}}, node_state_volume()],
    }


class Agents(pulumi.ComponentResource):
    """One DaemonSet per pool; a node is looked after from the moment it joins, before it takes work."""

    def __init__(
        self,
        name: str,
        config: StackConfig,
        depends_on: Sequence[pulumi.Resource],
        opts: pulumi.ResourceOptions | None = None,
    ) -> None:
        super().__init__("sparewheel:remediation:Agents", name, None, opts)
        access = agent_access(pulumi.ResourceOptions(parent=self, depends_on=list(depends_on)))
        for pool in config.pools:
            labels = {"app.kubernetes.io/name": AGENT, LABEL_POOL: pool.name}
            k8s.apps.v1.DaemonSet(
                f"agent-{pool.name}",
                # A bad host's pod never gets ready, and an `up` must not wait for it.
                metadata={
                    "name": f"{AGENT}-{pool.name}",
                    "namespace": NAMESPACE,
                    "labels": labels,
                    "annotations": {"pulumi.com/skipAwait": "true"},
                },
                spec=raw(
                    {
                        "selector": {"matchLabels": labels},
                        "template": {"metadata": {"labels": labels}, "spec": agent_pod(config, pool)},
                        "updateStrategy": {"type": "RollingUpdate", "rollingUpdate": {"maxUnavailable": "25%"}},
                    }
                ),
                opts=pulumi.ResourceOptions(parent=self, depends_on=[*access, *depends_on]),
            )
        self.register_outputs({})
