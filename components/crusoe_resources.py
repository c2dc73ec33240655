"""Node pools and the healer of a cluster at Crusoe Cloud: dynamic resources, thin shells over ``sparewheel.crusoe``.

Contract: check and diff do no I/O and look at declared fields only; create and update may be run again at any time and
end in the same state; read says a resource is gone only where the API answered so, and shows what healing doesn't
change; delete removes what a stack made, and nothing else. The secret key is a secret in the state.
The provider classes live here, in a module without side effects: the state refers to them by this import path.
"""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar, Final, TypeVar

import pulumi
from pulumi.dynamic import (
    CheckFailure,
    CheckResult,
    CreateResult,
    DiffResult,
    ReadResult,
    Resource,
    ResourceProvider,
    UpdateResult,
)
from pulumi.runtime.rpc import UNKNOWN

from components.plainly import plainly
from sparewheel.api.gpu_pool import CRUSOE_URL
from sparewheel.api.names import TAINT_SPARE
from sparewheel.crusoe.client import CrusoeClient

Props = dict[str, Any]
T = TypeVar("T")
SPARE_TAINTS: Final = ({"key": TAINT_SPARE, "effect": "NoSchedule"},)
"""A new VM takes no work before it was checked."""
ACCESS: Final = ("url", "projectId", "keyId", "secretKey")


class DeclaredProvider(ResourceProvider):
    """What the resources at Crusoe share: fields that are declared, some of them for life."""

    declared: ClassVar[tuple[str, ...]]
    for_life: ClassVar[tuple[str, ...]]
    """Fields whose change needs another resource."""
    optional: ClassVar[tuple[str, ...]] = ()

    def check(self, _olds: Props, news: Props) -> CheckResult:
        fields = (*ACCESS, *self.declared)
        failures = [
            CheckFailure(key, f"{key} is missing")
            for key in fields
            if news.get(key) is None and key not in self.optional
        ]
        failures += [
            CheckFailure(key, f"{key} can't change from {_olds[key]} to {news.get(key)}; declare another resource")
            for key in self.for_life
            if key in _olds and news.get(key) not in (_olds[key], UNKNOWN)
        ]
        return CheckResult(news, failures)

    def diff(self, _id: str, _olds: Props, _news: Props) -> DiffResult:
        return DiffResult(changes=self.seen(_olds) != self.seen(_news), replaces=[], delete_before_replace=False)

    def seen(self, props: Props) -> Props:
        """The declared fields; the engine turns each whole number into a float on its way."""
        found = {key: props.get(key) for key in (*ACCESS, *self.declared)}
        return {key: int(value) if isinstance(value, float) else value for key, value in found.items()}


class CrusoeNodePoolProvider(DeclaredProvider):
    """Its id is ``POOL@INCARNATION``. ``count`` is where it starts: a count that is higher is healing's, and stays."""

    declared = ("name", "clusterId", "productName", "count", "nodeLabels", "nodeTaints", "settings")
    for_life = ("projectId", "name", "clusterId", "productName", "settings")

    def create(self, props: Props) -> CreateResult:
        incarnation = uuid.uuid4().hex[:12]
        pool_id = self._ensure(props, "", incarnation)
        return CreateResult(f"{pool_id}@{incarnation}", self.seen(props))

    def update(self, _id: str, _olds: Props, _news: Props) -> UpdateResult:
        pool_id, _, incarnation = _id.partition("@")
        self._ensure(_news, pool_id, incarnation)
        return UpdateResult(self.seen(_news))

    def read(self, id_: str, props: Props) -> ReadResult:
        from sparewheel.crusoe.declared import LABEL_DECLARED, read_pool

        pool = run(props, lambda api: read_pool(api, id_.partition("@")[0]))
        if pool is None:
            return ReadResult("", {})
        labels = {key: value for key, value in (pool.node_labels or {}).items() if key != LABEL_DECLARED}
        taints = [{"key": t.key, "effect": t.effect, "value": t.value or ""} for t in pool.node_taints or []]
        taints = _in_order(taints, props.get("nodeTaints") or [])
        now = {**self.seen(props), "productName": pool.type, "nodeLabels": labels, "nodeTaints": taints}
        return ReadResult(id_, now, now)

    def delete(self, _id: str, _props: Props) -> None:
        from sparewheel.crusoe.declared import remove_pool

        pool_id, _, incarnation = _id.partition("@")
        run(_props, lambda api: remove_pool(api, pool_id, incarnation))

    def _ensure(self, props: Props, pool_id: str, incarnation: str) -> str:
        from sparewheel.crusoe.declared import Wanted, ensure_pool
        from sparewheel.crusoe.wire import NodeTaint

        declared = self.seen(props)
        wanted = Wanted(
            declared["name"],
            declared["clusterId"],
            declared["productName"],
            declared["count"],
            declared["nodeLabels"],
            tuple(NodeTaint(t["key"], t["effect"], t.get("value") or None) for t in declared["nodeTaints"]),
            incarnation,
            declared["settings"],
        )
        return run(props, lambda api: ensure_pool(api, wanted, pool_id))


class CrusoeHealerProvider(DeclaredProvider):
    """Who heals a cluster's nodes. One per cluster; its id is the cluster's. Delete gives healing back to Crusoe."""

    declared = ("clusterId", "healer", "fallbackToProjectReservations")
    for_life = ("projectId", "clusterId")
    optional = ("fallbackToProjectReservations",)

    def check(self, _olds: Props, news: Props) -> CheckResult:
        result: Any = super().check(_olds, news)
        if news.get("healer") not in (None, *HEALERS):
            result.failures.append(CheckFailure("healer", f"healer is {news['healer']!r}; it is one of {HEALERS}"))
        return result

    def create(self, props: Props) -> CreateResult:
        self._ensure(props, props["healer"])
        return CreateResult(str(props["clusterId"]), self.seen(props))

    def update(self, _id: str, _olds: Props, _news: Props) -> UpdateResult:
        self._ensure(_news, _news["healer"])
        return UpdateResult(self.seen(_news))

    def read(self, id_: str, props: Props) -> ReadResult:
        """Shows it when somebody lets AutoClusters act again; a cluster without it has ours."""
        auto = run(props, lambda api: api.auto_clusters(id_))
        acts = auto is not None and bool(auto.acting)
        now = {**self.seen(props), "healer": HEALERS[1] if acts else HEALERS[0]}
        if props.get("fallbackToProjectReservations") is not None and auto is not None:
            now["fallbackToProjectReservations"] = auto.fallback_to_project_reservations
        return ReadResult(id_, now, now)

    def delete(self, _id: str, _props: Props) -> None:
        if run(_props, lambda api: api.auto_clusters(_id)) is not None:
            self._ensure({**_props, "fallbackToProjectReservations": None}, HEALERS[1])

    def _ensure(self, props: Props, healer: str) -> None:
        from sparewheel.crusoe.declared import ensure_healer

        cluster, fallback = str(props["clusterId"]), props.get("fallbackToProjectReservations")
        run(props, lambda api: ensure_healer(api, cluster, ours=healer == HEALERS[0], fallback=fallback))


HEALERS: Final = ("sparewheel", "crusoe")


def _in_order(found: list[dict[str, str]], like: Sequence[Mapping[str, str]]) -> list[dict[str, str]]:
    """The API's lists have no order of their own: as declared where it is the same."""
    declared = [{"key": t["key"], "effect": t["effect"], "value": t.get("value") or ""} for t in like]
    same = sorted(map(str, found)) == sorted(map(str, declared))
    return [dict(taint) for taint in like] if same else sorted(found, key=str)


def run(props: Props, work: Callable[[CrusoeClient], Awaitable[T]]) -> T:
    """One piece of work with a client of its own, in a thread of the plugin that has no loop."""
    from sparewheel.clock import SystemClock
    from sparewheel.crusoe.signing import Credentials
    from sparewheel.crusoe.transport import Transport

    async def go() -> T:
        clock = SystemClock()
        transport = Transport(str(props["url"]), Credentials(str(props["keyId"]), str(props["secretKey"])), clock)
        async with CrusoeClient(transport, str(props["projectId"]), clock, OPERATION_SECONDS) as api:
            return await work(api)

    with plainly():
        return asyncio.run(go())


OPERATION_SECONDS: Final = 1800.0
"""A pool's first VMs are installed within this time."""


@dataclass(frozen=True)
class PoolSettings:
    """``settings``: what only creation takes, under the API's own names (``subnet_id``, ``node_pool_version``, ...)."""

    product_name: str
    count: int
    node_labels: Mapping[str, str] = field(default_factory=dict[str, str])
    node_taints: Sequence[Mapping[str, str]] = SPARE_TAINTS
    settings: Mapping[str, Any] = field(default_factory=dict[str, Any])


class CrusoeNodePool(Resource, module="sparewheel", name="CrusoeNodePool"):
    """A node pool of Crusoe Managed Kubernetes. ``access``: projectId, keyId, secretKey; url where it is another."""

    def __init__(
        self,
        name: str,
        *,
        access: Mapping[str, pulumi.Input[str]],
        cluster_id: pulumi.Input[str],
        pool: PoolSettings,
        opts: pulumi.ResourceOptions | None = None,
    ) -> None:
        declared = {
            "name": name,
            "clusterId": cluster_id,
            "productName": pool.product_name,
            "count": pool.count,
            "nodeLabels": dict(pool.node_labels),
            "nodeTaints": [dict(taint) for taint in pool.node_taints],
            "settings": dict(pool.settings),
        }
        super().__init__(CrusoeNodePoolProvider(), name, {**access_props(access), **declared}, hiding(opts))


class CrusoeHealer(Resource, module="sparewheel", name="CrusoeHealer"):
    """``healer`` ``sparewheel``: AutoClusters changes nothing in the cluster; ``crusoe``: it does as by default."""

    def __init__(
        self,
        name: str,
        *,
        access: Mapping[str, pulumi.Input[str]],
        cluster_id: pulumi.Input[str],
        healer: str = HEALERS[0],
        fallback_to_project_reservations: bool | None = None,
        opts: pulumi.ResourceOptions | None = None,
    ) -> None:
        declared = {
            "clusterId": cluster_id,
            "healer": healer,
            "fallbackToProjectReservations": fallback_to_project_reservations,
        }
        first = pulumi.ResourceOptions(delete_before_replace=True)  # the old one's delete gives healing back
        opts = pulumi.ResourceOptions.merge(hiding(opts), first)
        super().__init__(CrusoeHealerProvider(), name, {**access_props(access), **declared}, opts)


def access_props(access: Mapping[str, pulumi.Input[str]]) -> Props:
    return {"url": CRUSOE_URL, **access, "secretKey": pulumi.Output.secret(access["secretKey"])}


def hiding(opts: pulumi.ResourceOptions | None, *more: str) -> pulumi.ResourceOptions:
    return pulumi.ResourceOptions.merge(opts, pulumi.ResourceOptions(additional_secret_outputs=["secretKey", *more]))
