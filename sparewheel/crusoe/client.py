"""Typed calls to one Crusoe project: VMs, node pools, AutoClusters, reservations, and long operations to their end."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from contextlib import suppress
from types import TracebackType
from typing import Any, Final, Self, TypeVar

import msgspec

from sparewheel.clock import Clock
from sparewheel.crusoe.errors import (
    CrusoeError,
    NoAnswerError,
    NotFoundError,
    OperationFailedError,
    OperationForgottenError,
    RefusedError,
    UnfinishedError,
    is_out_of_stock,
    out_of_stock,
)
from sparewheel.crusoe.transport import Call, Transport
from sparewheel.crusoe.wire import (
    FAILED,
    OFF_STATES,
    RUNNING,
    SUCCEEDED,
    AutoClusters,
    Cluster,
    NodePool,
    Operation,
    Page,
    Reservation,
    Started,
    Vm,
)
from sparewheel.crusoe.wire import Credentials as ClusterCredentials

VMS: Final = "/compute/vms/instances"
POOLS: Final = "/kubernetes/nodepools"
CLUSTERS: Final = "/kubernetes/clusters"
REMEDIATIONS: Final = "/kubernetes/autocluster-operations"
PAGE: Final = "100"
POLL_SECONDS: Final = 2.0
T = TypeVar("T")
Item = TypeVar("Item", Vm, NodePool, Cluster, Operation, Reservation)


class CrusoeClient:
    """``operation_seconds``: how long one long operation is waited for, on the clock that was passed in."""

    def __init__(self, transport: Transport, project_id: str, clock: Clock, operation_seconds: float = 600.0) -> None:
        self._transport = transport
        self._project = f"/projects/{project_id}"
        self._clock = clock
        self._operation_seconds = operation_seconds

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self._transport.close()

    # ------------------------------------------------------------------ reading

    async def vms(self, ids: Sequence[str]) -> list[Vm]:
        """Those of the VMs that there are: one that is gone is missing, where a GET would answer an ambiguous 403."""
        if not ids:
            return []
        query = {"ids": ",".join(ids)}
        return await self._all(f"{self._project}{VMS}", Vm, f"VMs {', '.join(ids)}", query, paged=True)

    async def pool(self, pool_id: str) -> NodePool:
        what = f"node pool {pool_id}"
        return self._read(await self._get(f"{POOLS}/{pool_id}", what), NodePool, what)

    async def pools(self, cluster_id: str) -> list[NodePool]:
        what = f"node pools of cluster {cluster_id}"
        return await self._all(f"{self._project}{POOLS}", NodePool, what, {"cluster_id": cluster_id})

    async def pool_vms(self, pool_id: str) -> list[Vm]:
        """All VMs of the pool by name, page by page."""
        what = f"VMs of node pool {pool_id}"
        found = await self._all(f"{self._project}{POOLS}/{pool_id}/vms", Vm, what, {}, paged=True)
        return sorted(found, key=lambda vm: (vm.name, vm.id))

    async def auto_clusters(self, cluster_id: str) -> AutoClusters | None:
        """None only when the API answered that the cluster has no such configuration."""
        what = f"AutoClusters configuration of cluster {cluster_id}"
        try:
            return self._read(await self._get(f"{CLUSTERS}/{cluster_id}/autoclusters/config", what), AutoClusters, what)
        except NotFoundError:
            return None

    async def remediations_under_way(self, cluster_id: str) -> list[Operation]:
        what = f"AutoClusters operations of cluster {cluster_id}"
        query = {"cluster_id": cluster_id, "state": "IN_PROGRESS"}
        return await self._all(f"{self._project}{REMEDIATIONS}", Operation, what, query)

    async def reservation(self, organization_id: str, reservation_id: str) -> Reservation:
        what = f"reservation {reservation_id}"
        path = f"/organizations/{organization_id}/reservations/{reservation_id}"
        for found in await self._all(path, Reservation, what, {}):
            if found.id == reservation_id:
                return found
        raise CrusoeError(f"{what} is not in organization {organization_id}; check both ids")

    # ------------------------------------------------------------------ writing

    async def start_vm(self, vm: Vm) -> None:
        """OutOfStockError where its host was given to somebody else meanwhile."""
        await self._power_to(vm, "START", {RUNNING})

    async def stop_vm(self, vm: Vm) -> None:
        await self._power_to(vm, "STOP", OFF_STATES)

    async def reset_vm(self, vm: Vm) -> None:
        """Not sent again when its answer is lost: a second reset would hit the boot that the first began."""
        await self._power(vm, "RESET", repeatable=False)

    async def delete_vm(self, vm: Vm) -> None:
        """Safe to repeat: a VM that is not listed any more is deleted."""
        if not await self.vms([vm.id]):
            return
        what = f"delete VM {vm.name}"
        try:
            await self._ask("DELETE", f"{VMS}/{vm.id}", what, VMS)
        except (RefusedError, OperationForgottenError):
            if await self.vms([vm.id]):
                raise

    async def set_pool_count(self, pool: NodePool, count: int) -> Operation | None:
        """An absolute number, so repeating it is harmless. Lowering it deletes nothing; SUCCEEDED may be partial."""
        return await self.change_pool(pool, {"count": count})

    async def change_pool(self, pool: NodePool, changes: Mapping[str, Any]) -> Operation | None:
        what = f"set {', '.join(changes)} of node pool {pool.name or pool.id}"
        return await self._ask("PATCH", f"{POOLS}/{pool.id}", what, POOLS, changes)

    async def create_pool(self, name: str, body: Mapping[str, Any]) -> Operation | None:
        """Not sent again when its answer is lost: there would be two. Look for it by name."""
        return await self._ask("POST", POOLS, f"make node pool {name}", POOLS, body, repeatable=False)

    async def delete_pool(self, pool: NodePool) -> None:
        """Its VMs go, too. Safe to repeat: the caller looks whether it is there."""
        with suppress(NotFoundError, OperationForgottenError):
            await self._ask("DELETE", f"{POOLS}/{pool.id}", f"delete node pool {pool.name}", POOLS)

    async def clusters(self, name: str) -> list[Cluster]:
        return await self._all(f"{self._project}{CLUSTERS}", Cluster, f"clusters {name}", {"cluster_name": name})

    async def cluster(self, cluster_id: str) -> Cluster:
        what = f"cluster {cluster_id}"
        return self._read(await self._get(f"{CLUSTERS}/{cluster_id}", what), Cluster, what)

    async def create_cluster(self, name: str, body: Mapping[str, Any]) -> None:
        """As ``create_pool``: not sent again when its answer is lost."""
        await self._ask("POST", CLUSTERS, f"make cluster {name}", CLUSTERS, body, repeatable=False)

    async def delete_cluster(self, cluster: Cluster) -> None:
        """Safe to repeat: the caller looks whether it is there."""
        with suppress(NotFoundError, OperationForgottenError):
            await self._ask("DELETE", f"{CLUSTERS}/{cluster.id}", f"delete cluster {cluster.name}", CLUSTERS)

    async def credentials(self, cluster_id: str) -> ClusterCredentials:
        """A POST that changes nothing, so it may be sent again."""
        what = f"credentials of cluster {cluster_id}"
        path = f"{self._project}{CLUSTERS}/{cluster_id}/get-credentials"
        raw = await self._transport.send(Call("POST", path, what, {"auth_type": "admin_cert"}))
        return self._read(raw, ClusterCredentials, what)

    async def change_auto_clusters(self, cluster_id: str, body: Mapping[str, Any]) -> AutoClusters:
        what = f"set AutoClusters configuration of cluster {cluster_id}"
        path = f"{self._project}{CLUSTERS}/{cluster_id}/autoclusters/config"
        return self._read(await self._transport.send(Call("PATCH", path, what, body=body)), AutoClusters, what)

    async def _power_to(self, vm: Vm, action: str, wanted: Collection[str]) -> None:
        """What is so already is refused by the API; the VM's own state says whether that was it."""
        try:
            await self._power(vm, action)
        except (RefusedError, OperationForgottenError):
            now = await self.vms([vm.id])
            if not now or now[0].status not in wanted:
                raise

    async def _power(self, vm: Vm, action: str, *, repeatable: bool = True) -> None:
        what = f"{action} of VM {vm.name}"
        await self._ask("PATCH", f"{VMS}/{vm.id}", what, VMS, {"action": action}, repeatable=repeatable)

    # ------------------------------------------------------------------ long operations

    async def _ask(
        self,
        method: str,
        path: str,
        what: str,
        family: str,
        body: Mapping[str, Any] | None = None,
        *,
        repeatable: bool = True,
    ) -> Operation | None:
        """Send it and wait for its operation's end; None where the answer names none: it was done at once."""
        call = Call(method, f"{self._project}{path}", what, body=body, repeatable=repeatable)
        started = self._read(await self._transport.send(call), Started, what).operation
        return await self._finish(started, family, what) if started is not None else None

    async def _finish(self, operation: Operation, family: str, what: str) -> Operation:
        until = self._clock.monotonic_seconds() + self._operation_seconds
        path = f"{family}/operations/{operation.operation_id}"
        trouble = ""
        while operation.status not in (SUCCEEDED, FAILED):
            if self._clock.monotonic_seconds() >= until:
                raise UnfinishedError(
                    f"{what}: operation {operation.operation_id} has not ended after {self._operation_seconds:g} s"
                    f"{trouble}; it goes on at Crusoe, run it again to look"
                )
            await self._clock.sleep(POLL_SECONDS)
            try:
                asked = await self._get(path, f"operation {operation.operation_id} ({what})")
                operation, trouble = self._read(asked, Operation, what), ""
            except NoAnswerError as error:  # one poll that fails says nothing about the operation
                trouble = f", last: {error}"
            except RefusedError as error:
                if error.status not in (403, 404):
                    raise
                raise OperationForgottenError(
                    f"{what}: operation {operation.operation_id} can't be read any more; look at the object itself"
                ) from error
        if operation.status == FAILED:
            text = _failure(operation)
            if is_out_of_stock(text):
                raise out_of_stock(what, text)
            raise OperationFailedError(f"{what} failed at Crusoe: {text}; look at it in the console, then run it again")
        return operation

    # ------------------------------------------------------------------ transport

    async def _get(self, path: str, what: str) -> bytes:
        return await self._transport.send(Call("GET", f"{self._project}{path}", what))

    async def _all(
        self, path: str, kind: type[Item], what: str, query: Mapping[str, str], *, paged: bool = False
    ) -> list[Item]:
        """Every page; whatever is shown on two pages counts once, as the list may change meanwhile."""
        found: dict[str, Item] = {}
        params = {**query, "limit": PAGE} if paged else dict(query)
        seen: set[str] = set()
        while True:
            page = self._read(await self._transport.send(Call("GET", path, what, params)), Page[kind], what)
            if page.items is msgspec.UNSET:
                raise CrusoeError(f"{what}: Crusoe answered with no list; nothing is concluded, check url")
            for item in page.items or []:
                found[item.operation_id if isinstance(item, Operation) else item.id] = item
            token = page.next_page_token or page.next_token or ""
            if not paged or not token:
                return list(found.values())
            if token in seen:
                raise CrusoeError(f"{what}: Crusoe's pages go round in a circle; nothing is concluded, try again")
            seen.add(token)
            params["next_token"] = token

    def _read(self, raw: bytes, kind: type[T], what: str) -> T:
        try:
            return msgspec.json.decode(raw or b"{}", type=kind)
        except (msgspec.DecodeError, UnicodeDecodeError) as error:
            raise CrusoeError(f"{what}: Crusoe's answer is not what its API describes: {error}; check url") from error


def _failure(operation: Operation) -> str:
    result: Any = operation.result
    if not isinstance(result, dict):
        return "no reason given"
    words: dict[str, Any] = dict(result)  # pyright: ignore[reportUnknownArgumentType]
    return str(words.get("message") or words.get("code") or "no reason given").rpartition(" desc = ")[2]
