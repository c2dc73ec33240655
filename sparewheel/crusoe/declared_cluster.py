"""Makes a cluster of Crusoe Managed Kubernetes as declared, once, and gets its kubeconfig.

A cluster carries no label of ours, so one that was there before is taken over only where the stack says so. Nothing of
it can change in place.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Mapping
from typing import Any

import msgspec

from sparewheel.crusoe.client import CrusoeClient
from sparewheel.crusoe.errors import CrusoeError, NotFoundError, UnknownOutcomeError
from sparewheel.crusoe.wire import GONE_STATES, Cluster, Credentials


class BootingError(CrusoeError):
    """A new cluster has no credentials yet."""


class WantedCluster(msgspec.Struct, frozen=True):
    """``settings``: what creation takes besides, under the API's own names (``add_ons``, ``subnet_id``, ...)."""

    name: str
    location: str
    version: str
    settings: Mapping[str, Any] = {}
    adopt: bool = False
    """Take over a cluster of this name that is there: one that a run made which was cut."""


async def make_cluster(api: CrusoeClient, wanted: WantedCluster) -> str:
    """Its id. Where the answer is lost, one of this name that was not there before is ours."""
    there = await _named(api, wanted.name)
    if there and not wanted.adopt:
        raise CrusoeError(
            f"the project has a cluster {wanted.name} already; set adopt where it is this stack's (a run that was cut "
            "made it), or use another name"
        )
    if there:
        return _one(there, wanted)
    body = {**wanted.settings, "name": wanted.name, "location": wanted.location, "version": wanted.version}
    try:
        await api.create_cluster(wanted.name, body)
    except UnknownOutcomeError:
        if not await _named(api, wanted.name):
            raise
    return _one(await _named(api, wanted.name), wanted)


def _one(named: list[Cluster], wanted: WantedCluster) -> str:
    if len(named) != 1:
        raise CrusoeError(f"the project has {len(named)} clusters {wanted.name}, not one; look in the console")
    found = (named[0].location, named[0].version)
    if found != (wanted.location, wanted.version):
        raise CrusoeError(
            f"cluster {wanted.name} is there as {found}, not {(wanted.location, wanted.version)}; use another name"
        )
    return named[0].id


async def read_cluster(api: CrusoeClient, cluster_id: str) -> Cluster | None:
    """None only when the API answered that there is none, or that it is deleted."""
    try:
        cluster = await api.cluster(cluster_id)
    except NotFoundError:
        return None
    return None if cluster.status in GONE_STATES else cluster


async def remove_cluster(api: CrusoeClient, cluster_id: str) -> None:
    """Refused while it has node pools, which may be others'."""
    cluster = await read_cluster(api, cluster_id)
    if cluster is None:
        return
    left = [pool.name or pool.id for pool in await api.pools(cluster_id) if pool.status not in GONE_STATES]
    if left:
        raise CrusoeError(f"cluster {cluster.name} still has node pools ({', '.join(sorted(left))}); delete them first")
    await api.delete_cluster(cluster)
    if await read_cluster(api, cluster_id) is not None:
        raise CrusoeError(f"cluster {cluster.name} is still there after it was deleted; run it again")


async def kubeconfig_of(api: CrusoeClient, cluster_id: str) -> str:
    """As the API gives it; from its parts where an older one has only those. A secret."""
    found = await api.credentials(cluster_id)
    return found.kube_config or _composed(found)


def _composed(found: Credentials) -> str:
    name, user = found.cluster_name, found.user_name
    if not (name and found.cluster_address and found.user_client_key):
        raise BootingError(
            f"the credentials of cluster {name or '(no name)'} are not whole; its API server may be booting"
        )
    cluster = {
        "server": _address(found.cluster_address),
        "certificate-authority-data": _encoded(found.cluster_ca_certificate),
    }
    keys = {
        "client-certificate-data": _encoded(found.user_client_certificate),
        "client-key-data": _encoded(found.user_client_key),
    }
    config: dict[str, Any] = {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": name, "cluster": cluster}],
        "users": [{"name": user, "user": keys}],
        "contexts": [{"name": name, "context": {"cluster": name, "user": user}}],
        "current-context": name,
    }
    return json.dumps(config)


def _address(text: str) -> str:
    return text if "://" in text else f"https://{text}"


def _encoded(pem: str) -> str:
    return base64.b64encode(pem.encode()).decode()


async def _named(api: CrusoeClient, name: str) -> list[Cluster]:
    return [one for one in await api.clusters(name) if one.name == name and one.status not in GONE_STATES]
