"""A cluster of Crusoe Managed Kubernetes: a dynamic resource, a thin shell over ``sparewheel.crusoe``.

Contract as in ``crusoe_resources``; besides, nothing of a cluster can change in place, so a changed field is a failure
with the next step, and the kubeconfig, a secret, is fetched once: a renewed one would be a change that nobody made.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import pulumi
from pulumi.dynamic import CreateResult, ReadResult, Resource, UpdateResult

from components.crusoe_resources import DeclaredProvider, Props, access_props, hiding, run
from sparewheel.crusoe.client import CrusoeClient
from sparewheel.crusoe.errors import CrusoeError


class CrusoeClusterProvider(DeclaredProvider):
    """Its id is the cluster's. Delete is refused while it has node pools, or ``adopt`` is set: a forced replacement
    would take the cluster over and then delete it."""

    declared = ("name", "location", "version", "settings", "adopt")
    for_life = ("projectId", "name", "location", "version", "settings")

    def create(self, props: Props) -> CreateResult:
        from sparewheel.crusoe.declared_cluster import WantedCluster, kubeconfig_of, make_cluster

        found = self.seen(props)
        wanted = WantedCluster(
            found["name"], found["location"], found["version"], found["settings"], bool(found["adopt"])
        )

        async def make(api: CrusoeClient) -> tuple[str, str]:
            cluster_id = await make_cluster(api, wanted)
            return cluster_id, await kubeconfig_of(api, cluster_id)

        cluster_id, kubeconfig = run(props, make)
        return CreateResult(cluster_id, {**found, "kubeconfig": kubeconfig})

    def update(self, _id: str, _olds: Props, _news: Props) -> UpdateResult:
        """Only the access and ``adopt`` can have changed."""
        return UpdateResult({**self.seen(_news), "kubeconfig": _olds["kubeconfig"]})

    def read(self, id_: str, props: Props) -> ReadResult:
        from sparewheel.crusoe.declared_cluster import kubeconfig_of, read_cluster

        async def look(api: CrusoeClient) -> Props | None:
            cluster = await read_cluster(api, id_)
            if cluster is None:
                return None
            kubeconfig = props.get("kubeconfig") or await kubeconfig_of(api, id_)
            facts = {"name": cluster.name, "location": cluster.location, "version": cluster.version}
            return {**self.seen(props), **facts, "kubeconfig": kubeconfig}

        now = run(props, look)
        return ReadResult("", {}) if now is None else ReadResult(id_, now, now)

    def delete(self, _id: str, _props: Props) -> None:
        from sparewheel.crusoe.declared_cluster import remove_cluster

        if _props.get("adopt"):
            name = _props["name"]
            raise CrusoeError(
                f"cluster {name} is not deleted while adopt is set; take it away, 'pulumi up', then again"
            )
        run(_props, lambda api: remove_cluster(api, _id))


@dataclass(frozen=True)
class ClusterSettings:
    """``settings``: what creation takes besides, under the API's own names (``add_ons``, ``subnet_id``, ...)."""

    location: str
    version: str
    settings: Mapping[str, Any] = field(default_factory=dict[str, Any])
    adopt: bool = False
    """Take over a cluster of this name that is there, such as one whose creation was cut."""


class CrusoeCluster(Resource, module="sparewheel", name="CrusoeCluster"):
    """Node pools are made in its ``id``; ``kubeconfig`` is a secret. Its API server may answer only minutes later."""

    kubeconfig: pulumi.Output[str]

    def __init__(
        self,
        name: str,
        *,
        access: Mapping[str, pulumi.Input[str]],
        cluster: ClusterSettings,
        opts: pulumi.ResourceOptions | None = None,
    ) -> None:
        declared = {
            "name": name,
            "location": cluster.location,
            "version": cluster.version,
            "settings": dict(cluster.settings),
            "adopt": cluster.adopt,
            "kubeconfig": None,
        }
        super().__init__(
            CrusoeClusterProvider(), name, {**access_props(access), **declared}, hiding(opts, "kubeconfig")
        )
