"""Slurm's own daemons through Slinky's objects: keys, configuration, accounting, slurmctld, slurmrestd, a token."""

from __future__ import annotations

import pulumi
import pulumi_kubernetes as k8s

from components.accounting import Accounting
from components.generated_secret import GeneratedSecret
from components.names import (
    AUTH_SECRET,
    EXTRA_CONFIG,
    JWT_KEY,
    SLURM,
    SLURM_KEY,
    SLURM_NAMESPACE,
    STATE_CLAIM,
    TOKEN,
    TOKEN_USER,
    off_gpu_nodes,
)
from components.node_checks import NodeChecks, script_refs
from components.people import accounts_mount, accounts_volume
from components.slinky import container, ready_service, slinky
from components.slurm_conf import extra_files, slurm_conf
from stacks.platform import Images
from stacks.slurm import Slurm as SlurmConfig


class Slurm(pulumi.ComponentResource):
    """Ready when slurmctld and slurmrestd answer. Without slurmrestd the operator takes busy nodes for drained ones."""

    rest: pulumi.Resource
    """slurmrestd's object, the last of Slurm's own. Who depends on it comes after all of them and is destroyed before,
    and need not wait until the daemons answer: its own pods do."""

    def __init__(
        self, name: str, config: SlurmConfig, images: Images, opts: pulumi.ResourceOptions | None = None
    ) -> None:
        super().__init__("sparewheel:slurm:Slurm", name, None, opts)
        here = pulumi.ResourceOptions(parent=self)
        keys = self._keys(here)
        extra = k8s.core.v1.ConfigMap(
            EXTRA_CONFIG,
            metadata={"name": EXTRA_CONFIG, "namespace": SLURM_NAMESPACE},
            data=extra_files(config),
            opts=here,
        )
        checks = NodeChecks("node-checks", here) if config.node_checks else None
        accounting = Accounting(
            "accounting", config.accounting, images, pulumi.ResourceOptions(parent=self, depends_on=[keys])
        )
        controller = slinky(
            "Controller",
            SLURM,
            {
                "clusterName": config.cluster_name,
                "slurmKeyRef": {"name": AUTH_SECRET, "key": SLURM_KEY},
                "jwtKeyRef": {"name": AUTH_SECRET, "key": JWT_KEY},
                "accountingRef": {"name": SLURM},
                "configFileRefs": [{"name": EXTRA_CONFIG}],
                **(script_refs() if checks else {}),
                "extraConf": slurm_conf(config),
                "persistence": {"enabled": True, "existingClaim": STATE_CLAIM},
                "slurmctld": container(images, images.slurmctld, volumeMounts=[accounts_mount()]),
                "reconfigure": container(images, images.base),
                "logfile": container(images, images.base),
                "template": {"spec": {"affinity": off_gpu_nodes(), "volumes": [accounts_volume()]}},
            },
            self,
            [accounting, keys, extra, *(checks.maps if checks else [])],
        )
        self.rest = slinky(
            "RestApi",
            SLURM,
            {
                "controllerRef": {"name": SLURM},
                "replicas": 1,
                # the names of users, or every job's user_name is empty
                "slurmrestd": container(images, images.slurmrestd, volumeMounts=[accounts_mount()]),
                "template": {"spec": {"affinity": off_gpu_nodes(), "volumes": [accounts_volume()]}},
            },
            self,
            [controller],
        )
        slinky(
            "Token",
            TOKEN,
            {
                "jwtKeyRef": {"name": AUTH_SECRET, "key": JWT_KEY},
                "username": TOKEN_USER,
                "lifetime": "1h",
                "refresh": True,
            },
            self,
            [keys],
        )
        ready_service("slurmctld", SLURM, 6817, self, [controller])
        ready_service("slurmrestd", SLURM, 6820, self, [self.rest])
        self.register_outputs({})

    def _keys(self, opts: pulumi.ResourceOptions) -> k8s.core.v1.Secret:
        """Keys of every daemon, made once; another key would end every running job."""
        return k8s.core.v1.Secret(
            AUTH_SECRET,
            metadata={"name": AUTH_SECRET, "namespace": SLURM_NAMESPACE},
            data={
                SLURM_KEY: GeneratedSecret("slurm-key", 1024, opts).base64,
                JWT_KEY: GeneratedSecret("jwt-key", 32, opts).base64,
            },
            opts=opts,
        )
