"""How an object of Slinky's is written, and how ``up`` learns that what it stands for answers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pulumi
import pulumi_kubernetes as k8s

from components.manifest import metadata, raw
from components.names import SLINKY_API, SLURM_NAMESPACE
from stacks.platform import Images


def slinky(
    kind: str, name: str, spec: dict[str, Any], parent: pulumi.Resource, depends_on: Sequence[pulumi.Resource] = ()
) -> k8s.apiextensions.CustomResource:
    """One object of the operator's in Slurm's namespace."""
    return k8s.apiextensions.CustomResource(
        f"{kind.lower()}-{name}",
        api_version=SLINKY_API,
        kind=kind,
        metadata=raw(metadata(name, SLURM_NAMESPACE)),
        spec=spec,
        opts=pulumi.ResourceOptions(parent=parent, depends_on=list(depends_on)),
    )


def ready_service(
    daemon: str, instance: str, port: int, parent: pulumi.Resource, depends_on: Sequence[pulumi.Resource]
) -> k8s.core.v1.Service:
    """A Service that ``up`` waits for until a ready pod of the daemon stands behind it.

    The operator's objects say in their conditions what they are, each release in other words; a Service of ours with
    the operator's pod labels behaves the same under every release.
    """
    return k8s.core.v1.Service(
        f"{daemon}-ready",
        metadata={"name": f"{daemon}-ready", "namespace": SLURM_NAMESPACE},
        spec=raw(
            {
                "selector": {"app.kubernetes.io/name": daemon, "app.kubernetes.io/instance": instance},
                "ports": [{"name": daemon, "port": port}],
            }
        ),
        opts=pulumi.ResourceOptions(parent=parent, depends_on=list(depends_on)),
    )


def container(images: Images, image: str, **more: Any) -> dict[str, Any]:
    """The container fields that Slinky merges into its own."""
    return {"image": image, "imagePullPolicy": images.pull_policy, **more}
