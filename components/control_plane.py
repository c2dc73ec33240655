"""A control plane that kubeadm makes on a bare host over SSH; what it gives is the administrator's kubeconfig."""

from __future__ import annotations

from typing import Final

import pulumi
from pulumi_command import remote

from components import settings
from components.kubeadm import command, documents
from stacks.kubeadm import KubeadmCluster

DIAL_ERRORS: Final = 3
DIAL_SECONDS: Final = 10


class ControlPlane(pulumi.ComponentResource):
    """Initialised once; an update only reads the kubeconfig again, and never makes a second cluster elsewhere."""

    kubeconfig: pulumi.Output[str]
    """Secret; as the cluster's administrator."""

    def __init__(self, name: str, config: KubeadmCluster, opts: pulumi.ResourceOptions | None = None) -> None:
        super().__init__("sparewheel:platform:ControlPlane", name, None, opts)
        ssh = config.control_plane.ssh
        made = remote.Command(
            name,
            connection=remote.ConnectionArgs(
                host=ssh.address,
                port=ssh.port,
                user=ssh.user,
                host_key=ssh.host_key,
                private_key=settings.secret(config.control_plane.key_secret),
                dial_error_limit=DIAL_ERRORS,
                per_dial_timeout=DIAL_SECONDS,
            ),
            create=command(config, "init"),
            update=command(config, "again"),
            delete=command(config, "reset"),
            stdin=documents(config),
            add_previous_output_in_env=False,
            logging=remote.Logging.NONE,
            opts=pulumi.ResourceOptions(
                parent=self, protect=config.protect, additional_secret_outputs=["stdout", "stderr"]
            ),
        )
        self.kubeconfig = pulumi.Output.secret(made.stdout)
        self.register_outputs({"kubeconfig": self.kubeconfig})
