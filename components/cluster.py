"""The Kubernetes cluster: a kubeconfig, the provider that everything else is made with, and Slurm's namespace."""

from __future__ import annotations

import os
import shlex
from typing import cast

import pulumi
import pulumi_kubernetes as k8s
from pulumi.output import UNKNOWN
from pulumi_command import local

from components import settings
from components.control_plane import ControlPlane
from components.crusoe import declare_cluster
from components.names import SLURM_NAMESPACE
from sparewheel.kube.kubeconfig import AccessError, read_kubeconfig
from stacks.crusoe import CrusoeCluster
from stacks.kubeadm import KubeadmCluster
from stacks.platform import Cluster as ClusterConfig
from stacks.platform import CommandCluster

OFFLINE = "SPAREWHEEL_OFFLINE"


def _away() -> bool:
    """A first preview that can't reach the cluster, and says so, looks at it as at one that isn't there yet."""
    return bool(os.environ.get(OFFLINE)) and pulumi.runtime.is_dry_run()


def _whole(kubeconfig: str) -> str:
    """Before the provider gets it: that would say of each resource that the cluster is unreachable."""
    try:
        read_kubeconfig(kubeconfig, source="what the setting cluster gives")
    except AccessError as error:
        raise pulumi.RunError(str(error)) from None
    return kubeconfig


class Cluster(pulumi.ComponentResource):
    """A cluster that is there, one that a command makes or knows, one of kubeadm on a host of yours, or of Crusoe."""

    kubeconfig: pulumi.Output[str]
    """Secret; as the cluster's administrator."""
    provider: k8s.Provider
    crusoe_id: pulumi.Output[str] | None = None
    """Of a cluster of Crusoe's that the stack makes."""

    def __init__(self, name: str, config: ClusterConfig, opts: pulumi.ResourceOptions | None = None) -> None:
        super().__init__("sparewheel:platform:Cluster", name, None, opts)
        given = self._kubeconfig(name, config)
        self.kubeconfig = pulumi.Output.secret(cast("str", UNKNOWN) if _away() else given).apply(_whole)
        self.provider = k8s.Provider(
            name,
            kubeconfig=self.kubeconfig,
            # Without it the provider guesses from the kubeconfig, and a renewed certificate would replace everything.
            cluster_identifier=f"{pulumi.get_project()}/{pulumi.get_stack()}",
            enable_config_map_mutable=True,
            enable_secret_mutable=True,
            opts=pulumi.ResourceOptions(parent=self),
        )
        k8s.core.v1.Namespace(
            f"{name}-{SLURM_NAMESPACE}",
            metadata={"name": SLURM_NAMESPACE},
            opts=pulumi.ResourceOptions(parent=self, provider=self.provider),
        )
        if isinstance(config, KubeadmCluster) and config.network is not None:
            k8s.yaml.v2.ConfigGroup(
                f"{name}-network",
                files=[f"{config.network.rstrip('/')}/*.yaml"],
                opts=pulumi.ResourceOptions(parent=self, provider=self.provider),
            )
        self.register_outputs({"kubeconfig": self.kubeconfig})

    def _kubeconfig(self, name: str, config: ClusterConfig) -> pulumi.Input[str]:
        if isinstance(config, CrusoeCluster):
            made = declare_cluster(config, self)
            self.crusoe_id = made.cluster_id
            return made.kubeconfig
        if isinstance(config, CommandCluster):
            return self._command(name, config.command, config.destroy_command, config.rerun)
        if isinstance(config, KubeadmCluster):
            return ControlPlane(f"{name}-control-plane", config, pulumi.ResourceOptions(parent=self)).kubeconfig
        if config.kubeconfig_path is not None:
            return self._command(name, f"cat {shlex.quote(config.kubeconfig_path)}")
        return settings.secret(config.kubeconfig_secret or "")

    def _command(self, name: str, create: str, delete: str | None = None, rerun: str = "") -> pulumi.Output[str]:
        """What a command prints; run once, and again when its text or ``rerun`` changes."""
        command = local.Command(
            f"{name}-kubeconfig",
            create=create,
            delete=delete,
            triggers=[rerun],
            logging=local.Logging.NONE,
            opts=pulumi.ResourceOptions(parent=self, additional_secret_outputs=["stdout", "stderr"]),
        )
        return command.stdout
