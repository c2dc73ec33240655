"""Keeps warm spares ready: their workers registered in Slurm behind a reservation, members in service.

Looks every two seconds, needs no memory and holds no lease: every write is the same whoever makes it.
"""

from __future__ import annotations

import logging
from dataclasses import dataclass, field

from sparewheel.api.gpu_host import GpuHost, HostPhase
from sparewheel.api.gpu_pool import GpuPool
from sparewheel.api.names import REASON_UNRESERVED, TAINT_SPARE
from sparewheel.api.remediation import Outcome
from sparewheel.capacity.plan import INCIDENT, pool_owner
from sparewheel.remediation.controller.state import State
from sparewheel.remediation.decide.observations import PodView
from sparewheel.remediation.decide.warm import (
    RESERVATION_PREFIX,
    Place,
    Reservation,
    WarmAction,
    Worker,
    next_actions,
    place_of,
    protected,
    reservation_name,
)
from sparewheel.remediation.stages.incident import NotLeadingError, Ports
from sparewheel.remediation.stages.replacer import Check
from sparewheel.remediation.stages.takeover import reserve, workers
from sparewheel.remediation.stages.views import slurm_node_view
from sparewheel.slurm.port import SlurmError, SlurmUnavailableError

log = logging.getLogger("sparewheel.remediation")

LOOK_SECONDS = 2.0
UNSETTLED_SECONDS = 0.5


@dataclass(slots=True)
class WarmSpares:
    ports: Ports
    state: State
    _seated: set[tuple[str, str]] = field(default_factory=set[tuple[str, str]])
    """Node and its uid: opened to workers by this controller."""
    _cold: dict[str, int | None] = field(default_factory=dict[str, int | None])
    """Pools that have none, by generation, and from which nothing is left of earlier ones."""
    _said: dict[str, str] = field(default_factory=dict[str, str])

    async def look(self, name: str) -> float | None:
        """One look at a pool; seconds until the next, None when it keeps no warm spares."""
        pool = self.state.pools.get(name)
        if pool is None or self._cold.get(name, -1) == pool.metadata.generation:
            return None
        left_over = [] if pool.spec.warm_spares else await self._left_over(pool)
        if not pool.spec.warm_spares and not left_over:
            self._cold[name] = pool.metadata.generation
            return None
        found = await self._workers(pool)
        for reservation in sorted(set(left_over) - {reservation_name(worker.name) for worker in found}):
            self._must_lead()
            await self.ports.slurm.delete_reservation(reservation)  # of a worker that is no more
        settled = True
        for worker in found:
            for action in self._allowed(pool, next_actions(worker, self.ports.clock.now())):
                settled = False
                await self._do(worker, action)
        if pool.spec.warm_spares and await self._seat(pool, found):
            settled = False
        return LOOK_SECONDS if settled else UNSETTLED_SECONDS

    @staticmethod
    def _allowed(pool: GpuPool, actions: tuple[WarmAction, ...]) -> tuple[WarmAction, ...]:
        """Where warm spares were switched off, what is left of them is lifted, and nothing else is done."""
        return actions if pool.spec.warm_spares else tuple(one for one in actions if one is WarmAction.LIFT)

    # ---------------------------------------------------------------- looking
    async def _left_over(self, pool: GpuPool) -> list[str]:
        """Reservations of a time when the pool kept warm spares, also of workers that are just being made again."""
        mine = f"{RESERVATION_PREFIX}{pool.spec.node_set_ref.name}-"
        return [one.name for one in await self.ports.slurm.reservations() if one.name.startswith(mine)]

    async def _workers(self, pool: GpuPool) -> list[Worker]:
        """Read afresh; a look-up that fails ends the look."""
        pods = await workers(self.ports.kube, pool)
        hosts = {host.status.node_name or "": host for host in await self.ports.replacer.pool_hosts(pool)}
        slurm = {node.name: slurm_node_view(node) for node in await self.ports.slurm.nodes()}
        kept = {one.name: Reservation(one.nodes, one.end_time) for one in await self.ports.slurm.reservations()}
        open_ones = [record for record in await self.state.incidents() if record.status.outcome is Outcome.OPEN]
        incidents = {f"{INCIDENT}{record.metadata.name}": record.spec.node for record in open_ones}
        struck = {one for record in open_ones for one in record.status.owned.slurm_down}
        owner = pool_owner(pool.metadata.name)
        return [
            Worker(
                name=pod.hostname,
                place=place_of(pod, hosts, incidents, struck, owner),
                ready=pod.ready,
                cordoned=self._cordoned(pod),
                slurm=slurm.get(pod.hostname),
                reservation=kept.get(reservation_name(pod.hostname)),
            )
            for pod in pods
            if pod.hostname
        ]

    def _cordoned(self, pod: PodView) -> bool:
        node = self.state.nodes.get(pod.node_name)
        return node is None or node.unschedulable

    # ---------------------------------------------------------------- acting
    async def _do(self, worker: Worker, action: WarmAction) -> None:
        slurm, name = self.ports.slurm, worker.name
        self._must_lead()
        log.info("event=warm slurm_node=%s action=%s place=%s", name, action.value, worker.place.value)
        match action:
            case WarmAction.RESERVE:
                await self._reserve(worker)
            case WarmAction.LIFT:
                await slurm.delete_reservation(reservation_name(name))
            case WarmAction.RESUME:
                await slurm.set_node_state(name, ["RESUME"], "")

    async def _reserve(self, worker: Worker) -> None:
        """Never without protection: a spare that can't be reserved is drained until it can."""
        slurm = self.ports.slurm
        try:
            await reserve(slurm, worker.name, self.ports.clock.now())
        except SlurmUnavailableError:
            raise
        except SlurmError as error:
            log.warning("event=not_reserved slurm_node=%s error=%s", worker.name, error)
            if worker.slurm is not None and "DRAIN" not in worker.slurm.states:
                await slurm.set_node_state(worker.name, ["DRAIN"], REASON_UNRESERVED)

    async def _seat(self, pool: GpuPool, found: list[Worker]) -> bool:
        """Open checked spares to the workers that wait, once none of these could take work. True: one was opened."""
        now = self.ports.clock.now()
        waiting = [worker for worker in found if worker.place is Place.NOWHERE and worker.slurm is not None]
        if not all(protected(worker, now) for worker in waiting):
            return False
        opened = False
        for host in await self.ports.replacer.pool_hosts(pool):
            mark = self._mark(host)
            if mark is None or mark in self._seated:
                continue
            self._must_lead()
            result = await self.ports.replacer.seat(pool, host.spec.host)
            if result.check is Check.PASSED:
                self._seated.add(mark)
                opened = True
            self._say(host.spec.host, result.why or "stands by")
        return opened

    def _mark(self, host: GpuHost) -> tuple[str, str] | None:
        """The incarnation of a free spare's Node; None where it is none, or not in the cluster yet."""
        status = host.status
        node = self.state.nodes.get(status.node_name or "")
        free = status.phase is HostPhase.SPARE and status.claim is None
        return (node.name, node.uid) if free and node is not None and TAINT_SPARE in node.taints else None

    def _say(self, host: str, text: str) -> None:
        if self._said.get(host) != text:
            self._said[host] = text
            log.info("event=warm_spare host=%s state=%s", host, text)

    def _must_lead(self) -> None:
        if not self.ports.leading():
            raise NotLeadingError("another controller leads now")
