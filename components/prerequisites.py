"""Prerequisites: a dynamic resource that looks, before anything is made, whether the cluster has what it must have.

It makes nothing, and looks again only when what is expected, or the cluster, changes: new credentials for the same
cluster do not. A thin shell over ``sparewheel.kube``.
The provider class lives here, in a module without side effects: the state refers to it by this import path.
"""

from __future__ import annotations

import asyncio
from contextlib import suppress
from typing import Any, Final

import pulumi
from pulumi.dynamic import CreateResult, DiffResult, Resource, ResourceProvider, UpdateResult

from components.plainly import NotDone, plainly
from sparewheel.api.gpu_pool import WarmBackend
from sparewheel.api.names import GPU_RESOURCE
from sparewheel.kube.kubeconfig import AccessError, read_kubeconfig
from stacks.charts import ChartsOperator
from stacks.config import StackConfig
from stacks.platform import StorageClass

Props = dict[str, Any]
SEEN: Final = ("kubeconfig", "storageClasses", "certManager", "nodes")


class PrerequisitesProvider(ResourceProvider):
    """Create and update look; what isn't there is one error that names all of it."""

    def create(self, props: Props) -> CreateResult:
        self._look(props)
        return CreateResult("prerequisites", _seen(props))

    def diff(self, _id: str, _olds: Props, _news: Props) -> DiffResult:
        return DiffResult(changes=_looked_at(_olds) != _looked_at(_news), replaces=[])

    def update(self, _id: str, _olds: Props, _news: Props) -> UpdateResult:
        self._look(_news)
        return UpdateResult(_seen(_news))

    def _look(self, props: Props) -> None:
        from sparewheel.kube.access import from_text
        from sparewheel.kube.client import KubeClient
        from sparewheel.kube.prerequisites import Expected, NodesWanted, missing

        seen = _seen(props)
        expected = Expected(
            seen["storageClasses"],
            seen["certManager"],
            [NodesWanted(one["pool"], one["selector"], one["resources"]) for one in seen["nodes"]],
        )

        async def look() -> list[str]:
            async with KubeClient(from_text(str(props["kubeconfig"]))) as kube:
                return await missing(kube, expected)

        with plainly():
            found = asyncio.run(look())
            if found:
                raise NotDone("\n".join(["the cluster lacks what the platform needs:", *(f"  {one}" for one in found)]))


def _seen(props: Props) -> Props:
    """The engine turns each whole number into a float on its way."""
    nodes: list[Props] = props.get("nodes") or []
    return {**{key: props.get(key) for key in SEEN}, "nodes": [{**one, "resources": _whole(one)} for one in nodes]}


def _looked_at(props: Props) -> Props:
    """Of the kubeconfig only which cluster it names; one that is not known yet, or can't be read, as it is."""
    seen = _seen(props)
    if isinstance(seen["kubeconfig"], str):
        with suppress(AccessError):
            seen["kubeconfig"] = read_kubeconfig(seen["kubeconfig"]).cluster
    return seen


def _whole(one: Props) -> dict[str, int]:
    counts: Props = one["resources"]
    return {key: int(count) for key, count in counts.items()}


class Prerequisites(Resource, module="sparewheel", name="Prerequisites"):
    """Everything that is made in the cluster comes after it."""

    def __init__(
        self, config: StackConfig, kubeconfig: pulumi.Input[str], opts: pulumi.ResourceOptions | None = None
    ) -> None:
        operator = config.operator
        secret = pulumi.ResourceOptions(additional_secret_outputs=["kubeconfig"])
        props = {
            "kubeconfig": pulumi.Output.secret(kubeconfig),
            "storageClasses": [disk.storage_class for _, disk in config.storage if isinstance(disk, StorageClass)],
            "certManager": isinstance(operator, ChartsOperator)
            and operator.has_webhook
            and operator.cert_manager is None,
            "nodes": [
                {
                    "pool": pool.name,
                    "selector": dict(pool.backend.node_selector),
                    "resources": {GPU_RESOURCE: pool.gpus_per_node, **pool.worker_resources},
                }
                for pool in config.pools
                if isinstance(pool.backend, WarmBackend)
            ],
        }
        super().__init__(PrerequisitesProvider(), "prerequisites", props, pulumi.ResourceOptions.merge(opts, secret))
