"""A cluster of Crusoe Managed Kubernetes and its kubeconfig: dynamic resources, thin shells over ``sparewheel.crusoe``.

Contract as in ``crusoe_resources``; besides, nothing of a cluster can change in place, so a changed field is a failure
with the next step. The kubeconfig, a secret, is fetched once: a renewed one would be a change that nobody made. It is a
resource of its own, since a new cluster's API server answers only minutes later, and one that fails is tried again
without losing the cluster.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import pulumi
from pulumi.dynamic import CreateResult, ReadResult, Resource, UpdateResult

from components.crusoe_resources import DeclaredProvider, Props, access_props, hiding, run
from components.plainly import plainly
from sparewheel.crusoe.client import CrusoeClient
from sparewheel.crusoe.errors import CrusoeError


class CrusoeClusterProvider(DeclaredProvider):
    """Its id is the cluster's. Delete is refused while it has node pools, or ``adopt`` is set: a forced replacement
    would take the cluster over and then delete it."""

    declared = ("name", "location", "version", "settings", "adopt")
    for_life = ("projectId", "name", "location", "version", "settings")

    def create(self, props: Props) -> CreateResult:
        from sparewheel.crusoe.declared_cluster import WantedCluster, make_cluster

        found = self.seen(props)
        wanted = WantedCluster(
            found["name"], found["location"], found["version"], found["settings"], bool(found["adopt"])
        )
        return CreateResult(run(props, lambda api: make_cluster(api, wanted)), found)

    def update(self, _id: str, _olds: Props, _news: Props) -> UpdateResult:
        """Only the access and ``adopt`` can have changed."""
        return UpdateResult(self.seen(_news))

    def read(self, id_: str, props: Props) -> ReadResult:
        from sparewheel.crusoe.declared_cluster import read_cluster

        cluster = run(props, lambda api: read_cluster(api, id_))
        if cluster is None:
            return ReadResult("", {})
        now = {**self.seen(props), "name": cluster.name, "location": cluster.location, "version": cluster.version}
        return ReadResult(id_, now, now)

    def delete(self, _id: str, _props: Props) -> None:
        from sparewheel.crusoe.declared_cluster import remove_cluster

        if _props.get("adopt"):
            name = _props["name"]
            with plainly():
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
    """Node pools are made in its ``id``."""

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
        }
        super().__init__(CrusoeClusterProvider(), name, {**access_props(access), **declared}, hiding(opts))


class CrusoeKubeconfigProvider(DeclaredProvider):
    """Waits until the cluster's API server answers to it. Nothing at Crusoe is made, read again or deleted."""

    declared = ("clusterId",)
    for_life = ("projectId", "clusterId")

    def create(self, props: Props) -> CreateResult:
        from sparewheel.clock import SystemClock
        from sparewheel.crusoe.declared_cluster import BootingError, kubeconfig_of
        from sparewheel.kube.answering import until_it_answers

        cluster_id = str(props["clusterId"])

        async def fetch(api: CrusoeClient) -> str:
            return await until_it_answers(
                lambda: kubeconfig_of(api, cluster_id), SystemClock(), BOOT_SECONDS, BootingError
            )

        return CreateResult(cluster_id, {**self.seen(props), "kubeconfig": run(props, fetch)})

    def update(self, _id: str, _olds: Props, _news: Props) -> UpdateResult:
        """Only the access can have changed."""
        return UpdateResult({**self.seen(_news), "kubeconfig": _olds["kubeconfig"]})


BOOT_SECONDS = 1200.0
"""An API server of a new cluster answers within this time; five minutes is what others wait."""


class CrusoeKubeconfig(Resource, module="sparewheel", name="CrusoeKubeconfig"):
    """``kubeconfig`` is a secret, and its API server has answered."""

    kubeconfig: pulumi.Output[str]

    def __init__(
        self,
        name: str,
        *,
        access: Mapping[str, pulumi.Input[str]],
        cluster_id: pulumi.Input[str],
        opts: pulumi.ResourceOptions | None = None,
    ) -> None:
        props = {**access_props(access), "clusterId": cluster_id, "kubeconfig": None}
        super().__init__(CrusoeKubeconfigProvider(), name, props, hiding(opts, "kubeconfig"))
