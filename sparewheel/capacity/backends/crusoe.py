"""Backend ``crusoe``: the VMs of one node pool of Crusoe Managed Kubernetes, as Nodes that keep their name.

A spare is a VM of the pool that runs, tainted; it moves between roles as a warm Node does. The API is asked for what
Nodes can't tell: which VMs there are, whether one is off, and to stop, reset or delete one. Before each effect it is
asked whether AutoClusters acts in the cluster: a node has one healer.
"""

from __future__ import annotations

import logging
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from datetime import datetime
from typing import Final

from sparewheel.api.gpu_pool import BadVm, CrusoeBackend
from sparewheel.capacity.backends.crusoe_rules import may_grow, other_healer, taint_missing, under_remediation
from sparewheel.capacity.backends.warm import WarmProvider
from sparewheel.capacity.nodes import find_node
from sparewheel.capacity.port import CapacityError, Inventory, JoinRequest, Proof, UnreachableError
from sparewheel.clock import Clock
from sparewheel.crusoe.client import CrusoeClient
from sparewheel.crusoe.errors import CrusoeError, NoAnswerError, OperationForgottenError, OutOfStockError, RefusedError
from sparewheel.crusoe.signing import Credentials
from sparewheel.crusoe.transport import Transport
from sparewheel.crusoe.wire import GONE_STATES, OFF_STATES, RUNNING, AutoClusters, NodePool, Vm, shortfall
from sparewheel.kube.port import Kube

log = logging.getLogger("sparewheel.capacity")
PASSING: Final = frozenset({409, 429})
"""Refusals that pass by themselves: another operation runs, or too much was asked."""
MAX_LABEL: Final = 63
ASK_AGAIN_SECONDS: Final = 60.0
"""VMs that a pool lacks below its count are asked for again after this time."""


@dataclass(frozen=True, slots=True)
class _Look:
    """The pool and its VMs as they are now, by the name of their Node."""

    api: CrusoeClient
    pool: NodePool
    vms: dict[str, Vm]

    @property
    def place(self) -> str:
        return f"node pool {self.pool.name or self.pool.id}"


@dataclass(frozen=True, slots=True)
class CrusoeProvider:
    """``wanted``: how many VMs the pool shall have, spares included."""

    backend: CrusoeBackend
    kube: Kube
    clock: Clock
    secret_key: str = field(repr=False)
    wanted: int

    @property
    def keeps_node(self) -> bool:
        return True

    async def list_hosts(self) -> list[Inventory]:
        """Refused where AutoClusters acts, so that no spare is claimed, and passed over, for nothing."""
        async with self._looking() as look:
            await self._may_act(look)
            return [
                Inventory(host, f"crusoe://{vm.id}", vm.type, vm.pod_id or "", vm.nvlink_domain_id or "")
                for host, vm in look.vms.items()
            ]

    async def other_healer(self) -> str:
        async with self._asking() as api:
            cluster = (await api.pool(self.backend.node_pool_id)).cluster_id
            return other_healer(cluster, await api.auto_clusters(cluster))

    async def find_more(self, lacking: int) -> str:
        """Raise the pool's count as far as its reservation goes. Out of Stock is a reason, not an error."""
        async with self._looking() as look:
            auto = await self._may_act(look)
            pool, there = look.pool, len(look.vms)
            on_the_way = max(0, pool.count - there)
            if on_the_way and self._asked_lately(pool):
                return f"{look.place}: {on_the_way} VM(s) on the way"
            extra, why_not_all = await self._grow_by(look, auto, lacking - on_the_way)
            if not on_the_way and not extra:
                return f"{look.place} can't grow: {why_not_all}"
            missing = taint_missing(pool)
            if missing:
                return f"{look.place} is not grown: {missing}"
            count = pool.count + extra
            try:
                operation = await look.api.set_pool_count(pool, count)
            except OutOfStockError as error:
                return str(error)
            short = shortfall(operation)
            return f"{look.place}: {count - there} VM(s) more asked for" + (f", but {short}" if short else "")

    async def power_on(self, host: str) -> None:
        async with self._acting(host) as (look, vm):
            if vm.status in OFF_STATES:
                await look.api.start_vm(vm)
            elif vm.status != RUNNING:
                raise UnreachableError(f"VM {host} is {vm.state or 'in no known state'}; it is waited for")

    async def join(self, request: JoinRequest) -> None:
        async with self._acting(request.host):
            if await find_node(self.kube, request.host) is None:
                raise UnreachableError(f"VM {request.host} runs, but its Node has not registered yet; it is waited for")
            await self._nodes.join(request)

    async def prove_off(self, host: str, *, power_off: bool) -> Proof:
        """By the VM's own state, read after the operation. A VM that isn't listed proves nothing."""
        try:
            async with self._looking() as look:
                vm = self._vm(look, host)
                if power_off and vm.status not in OFF_STATES:
                    await self._may_act(look, vm)
                    await look.api.stop_vm(vm)
                    vm = self._vm(await self._read(look.api), host)
                return Proof.OFF if vm.status in OFF_STATES else Proof.ON if vm.status == RUNNING else Proof.UNKNOWN
        except CapacityError as error:
            log.warning("power of %s is not known: %s", host, error)
            return Proof.UNKNOWN

    async def reboot(self, host: str) -> None:
        async with self._acting(host) as (look, vm):
            await (look.api.start_vm(vm) if vm.status in OFF_STATES else look.api.reset_vm(vm))

    async def leave(self, host: str) -> None:
        async with self._acting(host):
            await self._nodes.leave(host)

    async def quarantine(self, host: str, reason: str) -> None:
        """Marked first, then stopped or deleted: a mark alone keeps work away if the rest is cut off."""
        async with self._acting(host) as (look, vm):
            if await find_node(self.kube, host) is not None:
                await self._nodes.quarantine(host, reason)
            if self.backend.bad_vm is BadVm.DELETE:
                await self._delete(look, vm)
            elif vm.status not in OFF_STATES:
                await look.api.stop_vm(vm)

    async def release(self, host: str) -> None:
        """Only our marks go, so it is done whoever heals: the VM stays, the node pool is not ours."""
        async with self._looking() as look:
            self._vm(look, host)
            await self._nodes.release(host)

    @property
    def _nodes(self) -> WarmProvider:
        """Membership is told by the node pool's list of VMs, not by labels."""
        return WarmProvider(self.kube, {})

    async def _delete(self, look: _Look, vm: Vm) -> None:
        """The pool makes another, unless it counts more than it shall: then the count goes down first."""
        missing = taint_missing(look.pool)
        if look.pool.count > self.wanted:
            await look.api.set_pool_count(look.pool, look.pool.count - 1)
        elif missing:
            log.warning("VM %s of %s is stopped, not deleted: %s", vm.name, look.place, missing)
            await look.api.stop_vm(vm)
            return
        await look.api.delete_vm(vm)

    async def _grow_by(self, look: _Look, auto: AutoClusters | None, lacking: int) -> tuple[int, str]:
        if lacking <= 0:
            return 0, ""
        named = self.backend.reservation
        found = await look.api.reservation(named.organization_id, named.reservation_id) if named is not None else None
        room = self.wanted + (named.max_extra if named is not None else 0) - look.pool.count
        return may_grow(auto, found, lacking, room)

    def _asked_lately(self, pool: NodePool) -> bool:
        try:
            updated = datetime.fromisoformat(pool.updated_at)
            since = (self.clock.now() - updated).total_seconds()
            return abs(since) < ASK_AGAIN_SECONDS  # a time far in our future is another clock's, and says nothing
        except (ValueError, TypeError):
            return False

    async def _may_act(self, look: _Look, vm: Vm | None = None) -> AutoClusters | None:
        """Raises unless we alone heal here. Asked right before each effect: it is switched in a console, by anybody."""
        cluster = look.pool.cluster_id
        auto = await look.api.auto_clusters(cluster)
        refused = other_healer(cluster, auto)
        if refused:
            raise CapacityError(refused)
        if auto is not None and vm is not None:
            others = [other.id for other in look.vms.values()]
            busy = under_remediation(vm.id, others, await look.api.remediations_under_way(cluster))
            if busy:
                raise UnreachableError(f"VM {vm.name}: {busy}; it is waited for")
        return auto

    def _vm(self, look: _Look, host: str) -> Vm:
        vm = look.vms.get(host)
        if vm is None:
            raise CapacityError(f"VM {host} is not in {look.place} of project {self.backend.project_id}; nothing done")
        return vm

    def _node_name(self, vm: Vm) -> str:
        return self.backend.node_name.replace("{name}", vm.name).replace("{location}", vm.location)

    async def _read(self, api: CrusoeClient) -> _Look:
        pool = await api.pool(self.backend.node_pool_id)
        vms = [vm for vm in await api.pool_vms(pool.id) if vm.status not in GONE_STATES]
        named = {self._node_name(vm): vm for vm in vms}
        if len(named) < len(vms):
            raise CapacityError(f"node pool {pool.name or pool.id}: two VMs share a name, so their Nodes can't be told")
        for host in named:
            if len(host) > MAX_LABEL:
                raise CapacityError(f"VM {host}: its Node's name has more than {MAX_LABEL} letters; use a shorter name")
        return _Look(api, pool, dict(sorted(named.items())))

    @asynccontextmanager
    async def _looking(self) -> AsyncGenerator[_Look, None]:
        async with self._asking() as api:
            yield await self._read(api)

    @asynccontextmanager
    async def _asking(self) -> AsyncGenerator[CrusoeClient, None]:
        """Every error of the API comes out as the port's: no answer and no stock may be otherwise later."""
        credentials = Credentials(self.backend.access.key_id, self.secret_key)
        transport = Transport(self.backend.url, credentials, self.clock)
        client = CrusoeClient(transport, self.backend.project_id, self.clock, self.backend.operation_seconds)
        try:
            async with client as api:
                yield api
        except (NoAnswerError, OutOfStockError, OperationForgottenError) as error:
            raise UnreachableError(str(error)) from error
        except CrusoeError as error:
            passes = isinstance(error, RefusedError) and error.status in PASSING
            raise (UnreachableError if passes else CapacityError)(str(error)) from error

    @asynccontextmanager
    async def _acting(self, host: str) -> AsyncGenerator[tuple[_Look, Vm], None]:
        async with self._looking() as look:
            vm = self._vm(look, host)
            await self._may_act(look, vm)
            yield look, vm
