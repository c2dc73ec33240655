"""Login nodes: the only thing of the platform that a researcher sees."""

from __future__ import annotations

from typing import Any

import pulumi
import pulumi_kubernetes as k8s

from components.manifest import raw
from components.names import (
    HOME_CLAIM,
    LOGIN,
    SLURM,
    SLURM_NAMESPACE,
    SSSD_KEY,
    SSSD_SECRET,
    off_gpu_nodes,
)
from components.people import KEYS_FOLDER, accounts_mount, accounts_volume, keys_mount, keys_volume
from components.slinky import container, slinky
from stacks.platform import Images
from stacks.slurm import Login as LoginConfig

NO_DIRECTORY = "[sssd]\nservices = nss\ndomains = none\n\n[domain/none]\nid_provider = files\n"
"""The operator wants a file for SSSD; our accounts come from the stack's config, by libnss-extrausers."""
SERVICE = "login-ssh"
SSHD_CONFIG = "\n".join(
    [
        f"AuthorizedKeysFile {KEYS_FOLDER}/%u",
        "PasswordAuthentication no",
        "KbdInteractiveAuthentication no",
        "PermitRootLogin no",
        "StrictModes no\n",
    ]
)
"""The keys' folder is a ConfigMap: kubelet mounts it read-only, but with a mode that lets all write, and sshd's own
check of modes would refuse every key in it."""


class Login(pulumi.ComponentResource):
    """Ready when sshd answers behind the Service that users reach."""

    address: pulumi.Output[str]
    """What to type after ``ssh``."""
    nodes: pulumi.Resource
    """The LoginSet, for who is destroyed before it and need not wait until somebody can log in."""

    def __init__(
        self, name: str, config: LoginConfig, images: Images, opts: pulumi.ResourceOptions | None = None
    ) -> None:
        super().__init__("sparewheel:slurm:Login", name, None, opts)
        here = pulumi.ResourceOptions(parent=self)
        sssd = k8s.core.v1.Secret(
            SSSD_SECRET,
            metadata={"name": SSSD_SECRET, "namespace": SLURM_NAMESPACE},
            string_data={SSSD_KEY: NO_DIRECTORY},
            opts=here,
        )
        mounts = [accounts_mount(), keys_mount(), {"name": "home", "mountPath": "/home"}]
        self.nodes = slinky(
            "LoginSet",
            LOGIN,
            {
                "controllerRef": {"name": SLURM},
                "replicas": config.replicas,
                "sssdConfRef": {"name": SSSD_SECRET, "key": SSSD_KEY},
                "extraSshdConfig": SSHD_CONFIG,
                "login": container(images, images.login, volumeMounts=mounts),
                "initconf": container(images, images.base),
                "template": {
                    "spec": {
                        "affinity": off_gpu_nodes(),
                        "volumes": [
                            accounts_volume(),
                            keys_volume(),
                            {"name": "home", "persistentVolumeClaim": {"claimName": HOME_CLAIM}},
                        ],
                    }
                },
            },
            self,
            [sssd],
        )
        service = self._service(config, self.nodes)
        self.address = self._address(config, service)
        self.register_outputs({"address": self.address})

    def _service(self, config: LoginConfig, login: pulumi.Resource) -> k8s.core.v1.Service:
        port: dict[str, Any] = {"name": "ssh", "port": 22, "targetPort": 22}
        if config.service.node_port is not None:
            port["nodePort"] = config.service.node_port
        ranges = list(config.service.source_ranges)
        return k8s.core.v1.Service(
            SERVICE,
            metadata={"name": SERVICE, "namespace": SLURM_NAMESPACE},
            spec=raw(
                {
                    "type": config.service.type,
                    "selector": {"app.kubernetes.io/name": "login", "app.kubernetes.io/instance": LOGIN},
                    "ports": [port],
                    **({"loadBalancerSourceRanges": ranges} if ranges else {}),
                }
            ),
            opts=pulumi.ResourceOptions(parent=self, depends_on=[login]),
        )

    def _address(self, config: LoginConfig, service: k8s.core.v1.Service) -> pulumi.Output[str]:
        given = config.service.address
        if config.service.type == "NodePort":
            return pulumi.Output.concat("-p ", service.spec.apply(_node_port), " USER@", given or "ANY-HOST")
        if config.service.type == "ClusterIP":
            return pulumi.Output.concat("USER@", given or service.spec.apply(lambda spec: spec.cluster_ip or ""))
        return pulumi.Output.concat("USER@", given or service.status.apply(_ingress))


def _node_port(spec: Any) -> str:
    return str(int(spec.ports[0].node_port or 0))


def _ingress(status: Any) -> str:
    ingress = status.load_balancer.ingress if status and status.load_balancer else None
    return (ingress[0].ip or ingress[0].hostname) if ingress else "unknown"
