"""Crusoe Cloud in a stack's file: a cluster and node pools that the stack makes, and what is asked of a backend."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, Final, Literal, cast
from urllib.parse import urlsplit

from pydantic import AfterValidator, Field, model_validator

from sparewheel.api.gpu_pool import CRUSOE_ID, CRUSOE_URL, AutoClustersMode, CrusoeAccess, CrusoeBackend
from stacks.base import Area, DnsName, LabelKey, LabelValue, with_credential_refs

LOOPBACK = ("127.0.0.1", "localhost")
MADE_HERE: Final = "00000000-0000-0000-0000-000000000000"
"""Stands for the id of a node pool that the stack makes, until it is known."""
SHARED: Final = ("project_id", "access", "url")
"""What a pool's backend takes from the stack's cluster where it doesn't say it itself."""
OUR_CLUSTER_FIELDS: Final = frozenset(("name", "location", "version"))
OUR_POOL_FIELDS: Final = frozenset(("name", "cluster_id", "product_name", "count", "node_labels", "node_taints"))

Product = Annotated[str, Field(pattern=r"^[a-z0-9][-a-z0-9._]*$", description="type of the VMs, such as c1a.8x")]


def _url(text: str) -> str:
    url = urlsplit(text)
    if url.scheme != "https" and url.hostname not in LOOPBACK:
        msg = f"url {text[:60]} is not encrypted; it begins with https://"
        raise ValueError(msg)
    return text


class NodePool(Area):
    """A node pool that the stack makes for a GPU pool, with size + spares VMs that join as spares."""

    product_name: Product
    cluster_id: str | None = Field(
        default=None, pattern=CRUSOE_ID, description="id of its cluster, where that isn't of kind crusoe"
    )
    node_labels: dict[LabelKey, LabelValue] = Field(default_factory=dict[str, str])
    settings: dict[str, Any] = Field(
        default_factory=dict[str, Any],
        description="what creation takes besides, by the API's names: subnet_id, ...",
    )

    @model_validator(mode="after")
    def _settings(self) -> NodePool:
        _not_ours(self.settings, OUR_POOL_FIELDS)
        return self


class SystemNodes(Area):
    """A node pool without GPUs, for everything that must outlive a GPU node."""

    product_name: Product
    count: int = Field(ge=1, le=100, description="VMs, such as 3")
    settings: dict[str, Any] = Field(default_factory=dict[str, Any])

    @model_validator(mode="after")
    def _settings(self) -> SystemNodes:
        _not_ours(self.settings, OUR_POOL_FIELDS)
        return self


class CrusoeCluster(Area):
    """A cluster of Crusoe Managed Kubernetes that the stack makes; the platform alone heals its nodes."""

    kind: Literal["crusoe"]
    name: DnsName = Field(description="name of the cluster; unique in the project")
    project_id: str = Field(pattern=CRUSOE_ID, description="id of the project")
    access: CrusoeAccess = Field(description="key_id, and key_ref: the secret of the stack with the key's secret key")
    location: str = Field(pattern=r"^[a-z0-9-]+$", description="such as us-east1-a")
    version: str = Field(
        pattern=r"^[0-9]+\.[0-9]+\.[0-9]+-cmk\.[0-9]+$", description="such as 1.33.4-cmk.20; it can't change later"
    )
    system: SystemNodes | None = Field(default=None, description="node pool without GPUs, where nobody else makes one")
    settings: dict[str, Any] = Field(
        default_factory=dict[str, Any], description="what creation takes besides, by the API's own names: add_ons, ..."
    )
    adopt: bool = Field(default=False, description="take over a cluster of this name, such as one that a cut run made")
    protect: bool = Field(default=False, description="a destroy refuses to delete the cluster and its system nodes")
    url: Annotated[str, AfterValidator(_url)] = CRUSOE_URL

    @model_validator(mode="before")
    @classmethod
    def _credentials(cls, raw: object) -> object:
        return with_credential_refs(raw, "access", "key_ref")

    @model_validator(mode="after")
    def _settings(self) -> CrusoeCluster:
        _not_ours(self.settings, OUR_CLUSTER_FIELDS)
        return self


def _not_ours(settings: Mapping[str, Any], ours: frozenset[str]) -> None:
    for name in settings:
        if name in ours:
            msg = f"settings.{name} has a setting of its own here, or is the platform's; leave it out of settings"
            raise ValueError(msg)


def from_cluster(raw: object) -> object:
    """A stack's settings in which each backend of kind crusoe has what its cluster, of that kind, says already."""
    body = _settings(raw)
    cluster, pools = _settings(body.get("cluster")), body.get("pools")
    if cluster.get("kind") != "crusoe" or not isinstance(pools, list):
        return raw
    known = {key: value for key, value in cluster.items() if key in SHARED}
    return {**body, "pools": [_with(known, pool) for pool in cast("list[object]", pools)]}


def _with(known: Mapping[str, Any], pool: object) -> object:
    body = _settings(pool)
    backend = _settings(body.get("backend"))
    return {**body, "backend": {**known, **backend}} if backend.get("kind") == "crusoe" else pool


def _settings(raw: object) -> dict[str, Any]:
    """None where something else stands: the model says so."""
    return cast("dict[str, Any]", raw) if isinstance(raw, dict) else {}


def with_node_pool(raw: object) -> object:
    """A pool's settings in which the backend names the node pool that the stack makes. ValueError where it can't."""
    body = _settings(raw)
    if body.get("node_pool") is None:
        return raw
    backend = _settings(body.get("backend"))
    if backend.get("kind") != "crusoe":
        msg = "node_pool is for a backend of kind crusoe; leave it out"
        raise ValueError(msg)
    if "node_pool_id" in backend:
        msg = "node_pool makes a node pool, backend.node_pool_id names one that is there; leave one of them out"
        raise ValueError(msg)
    return {**body, "backend": {**backend, "node_pool_id": MADE_HERE}}


def wrong_with(backend: CrusoeBackend) -> str:
    """Why it can't be used, with the next step; empty when it can."""
    if backend.auto_clusters is AutoClustersMode.ON:
        return (
            "auto_clusters is on: Crusoe replaces these nodes, and a node has one healer, never two; "
            "set its actions to OFF or detect_only in Crusoe and say so here, or take the pool out of the stack"
        )
    url = urlsplit(backend.url)
    if url.scheme != "https" and url.hostname not in LOOPBACK:
        return f"url {backend.url} is not encrypted; it begins with https://"
    return ""


def wrong_node_pool(node_pool: NodePool, *, cluster_made: bool) -> str:
    """Whether it is known which cluster the node pool is in. ``cluster_made``: the stack's is of kind crusoe."""
    if cluster_made and node_pool.cluster_id is not None:
        return "node_pool.cluster_id: the stack's cluster is of kind crusoe, so it is there; leave cluster_id out"
    if not cluster_made and node_pool.cluster_id is None:
        return "node_pool.cluster_id: is missing; name Crusoe's cluster, or have it made with cluster.kind crusoe"
    return ""
