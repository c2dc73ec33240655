"""Keeps warm spares ready: their workers registered in Slurm behind a reservation, members in service.

Looks every two seconds and holds no lease: every write is the same whoever makes it.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Iterable
from dataclasses import dataclass, field

from sparewheel.api.gpu_host import GpuHost, HostPhase
from sparewheel.api.gpu_pool import GpuPool
from sparewheel.api.names import REASON_UNRESERVED, SPARE_WARM, TAINT_SPARE
from sparewheel.api.remediation import Remediation
from sparewheel.capacity.nodes import boot_id_of, taints_of
from sparewheel.capacity.plan import INCIDENT, pool_owner
from sparewheel.remediation.controller.spare_tests import SpareTests, Standing
from sparewheel.remediation.controller.state import State
from sparewheel.remediation.decide.observations import PodView, SlurmNodeView
from sparewheel.remediation.decide.record import is_open
from sparewheel.remediation.decide.warm import (
    RESERVATION_PREFIX,
    InHand,
    Place,
    Reservation,
    WarmAction,
    Worker,
    clearing_actions,
    gone_for_good,
    left_drained,
    next_actions,
    place_of,
    protected,
    remember_drained,
    reservation_name,
    stands_by,
)
from sparewheel.remediation.stages.incident import NotLeadingError, Ports
from sparewheel.remediation.stages.replacer import Check
from sparewheel.remediation.stages.takeover import reserve, workers
from sparewheel.remediation.stages.views import slurm_node_view
from sparewheel.slurm.port import SlurmError, SlurmUnavailableError

log = logging.getLogger("sparewheel.remediation")

LOOK_SECONDS = 2.0
UNSETTLED_SECONDS = 0.5
LONGEST_SECONDS = 60.0
"""A pool without warm spares where only the reservation of a member is left, which has not come yet, is looked at so
rarely in the end. A host that changes wakes the look."""


@dataclass(slots=True)
class WarmSpares:
    ports: Ports
    state: State
    _cold: dict[str, int | None] = field(default_factory=dict[str, int | None])
    """Pools that have none, by generation, and from which nothing is left of earlier ones."""
    _rests: dict[str, float] = field(default_factory=dict[str, float])
    """How long such a pool was left alone last."""
    _tests: SpareTests = field(init=False)
    _drained: set[str] = field(default_factory=set[str])
    """Slurm nodes that are out of service as warm spares are, also where Slinky's reason stands over ours."""
    _said: dict[str, str] = field(default_factory=dict[str, str])
    _stay: set[str] = field(default_factory=set[str])
    """Slurm nodes that are no worker's any more and that Slurm does not delete."""

    def __post_init__(self) -> None:
        self._tests = SpareTests(self.ports, self._must_lead)

    async def look(self, name: str) -> float | None:
        """One look at a pool; seconds until the next, None when it keeps no warm spares."""
        pool = self.state.pools.get(name)
        if pool is None or self._cold.get(name, -1) == pool.metadata.generation:
            return None
        if not pool.spec.warm_spares:
            return await self._clear(pool)
        found, hosts = await self._workers(pool)
        settled = True
        for worker in found:
            for action in next_actions(worker, self.ports.clock.now()):
                settled = False
                await self._do(worker, action)
        if await self._seat(pool, found):
            settled = False
        if settled and await self._tests.look(pool, self._standing(hosts, found), hosts):
            settled = False
        return LOOK_SECONDS if settled else UNSETTLED_SECONDS

    async def _clear(self, pool: GpuPool) -> float | None:
        """Warm spares were switched off, or never on: what is left of them goes, and nothing else is done."""
        name, ours = pool.metadata.name, re.compile(rf"{re.escape(pool.spec.node_set_ref.name)}-\d+")
        kept = [one.name for one in await self.ports.slurm.reservations()]
        reserved = {one for one in kept if ours.fullmatch(one.removeprefix(RESERVATION_PREFIX))}
        nodes = await self.ports.slurm.nodes()
        self._drained = remember_drained(self._drained, map(slurm_node_view, nodes))
        own = [slurm_node_view(node) for node in nodes if ours.fullmatch(node.name)]
        gone = await self._gone(pool, own)
        out = any(left_drained(node, self._drained) for node in own if node.name not in self._stay)
        seated = [host for host in await self.ports.replacer.pool_hosts(pool) if self._taint(host) == SPARE_WARM]
        if not reserved and not out and not seated and not gone:
            self._cold[name] = pool.metadata.generation
            self._rests.pop(name, None)
            return None
        for host in seated:  # or a worker of a later time could come up there before it is known
            self._must_lead()
            await self.ports.replacer.unseat(pool, host.spec.host)
        found, _ = await self._workers(pool)
        members = {reservation_name(f"{pool.spec.node_set_ref.name}-{ordinal}") for ordinal in range(pool.spec.size)}
        lifted = sorted(reserved - members - {reservation_name(worker.name) for worker in found})
        for reservation in lifted:
            self._must_lead()
            await self.ports.slurm.delete_reservation(reservation)  # of a worker that is no more
        for node in gone:
            await self._delete(node)
        todo = [(worker, action) for worker in found for action in clearing_actions(worker, self._drained)]
        for worker, action in todo:
            await self._do(worker, action)
        longer = min(2 * self._rests.get(name, LOOK_SECONDS), LONGEST_SECONDS)
        self._rests[name] = LOOK_SECONDS if out or seated or lifted or gone or todo else longer
        return self._rests[name]

    async def _gone(self, pool: GpuPool, nodes: list[SlurmNodeView]) -> list[str]:
        """Slurm nodes of workers that the pool had for its spares and has no more. A look-up that fails ends the look.

        Slurm would show them as drained for ever. A worker of this name that is made later registers anew.
        """
        pods = await workers(self.ports.kube, pool)
        struck = _in_hand(await self.state.incidents()).struck
        if not gone_for_good(nodes, pods, pool.spec.size, struck, self._stay):
            return []
        jobs = [job for job in await self.ports.slurm.jobs() if "PENDING" in job.states]
        named = {name for job in jobs for name in job.wanted_nodes}
        return gone_for_good(nodes, pods, pool.spec.size, struck, self._stay | named)

    async def _delete(self, name: str) -> None:
        self._must_lead()
        try:
            await self.ports.slurm.delete_node(name)
        except SlurmUnavailableError:
            raise
        except SlurmError as error:
            self._stay.add(name)
            log.warning("event=warm_left slurm_node=%s error=%s next=scontrol delete nodename=%s", name, error, name)
        else:
            log.info("event=warm slurm_node=%s action=delete place=gone", name)

    # ---------------------------------------------------------------- looking
    async def _workers(self, pool: GpuPool) -> tuple[list[Worker], list[GpuHost]]:
        """And the pool's hosts. Read afresh, what incidents have in hand last; a look-up that fails ends the look."""
        pods = await workers(self.ports.kube, pool)
        listed = await self.ports.replacer.pool_hosts(pool)
        hosts = {host.status.node_name or "": host for host in listed}
        nodes, own = await self.ports.slurm.nodes(), {pod.hostname for pod in pods}
        self._drained = remember_drained(self._drained, map(slurm_node_view, nodes))
        slurm = {node.name: slurm_node_view(node) for node in nodes if node.name in own}
        kept = {one.name: Reservation(one.nodes, one.end_time) for one in await self.ports.slurm.reservations()}
        taken = _in_hand(await self.state.incidents())
        owner = pool_owner(pool.metadata.name)
        seen = [
            Worker(
                name=pod.hostname,
                node=pod.node_name,
                place=place_of(pod, hosts, taken, owner),
                ready=pod.ready,
                cordoned=self._cordoned(pod),
                slurm=slurm.get(pod.hostname),
                reservation=kept.get(reservation_name(pod.hostname)),
            )
            for pod in pods
            if pod.hostname
        ]
        return seen, listed

    def _standing(self, hosts: list[GpuHost], found: list[Worker]) -> list[Standing]:
        """Spares that could be taken at a strike, by their hosts."""
        now = self.ports.clock.now()
        workers_on = {worker.node: worker for worker in found if stands_by(worker) and protected(worker, now)}
        standing: list[Standing] = []
        for host in hosts:
            worker, body = (
                workers_on.get(host.status.node_name or ""),
                self.state.node_body(host.status.node_name or ""),
            )
            if worker is not None and body is not None:
                standing.append(Standing(host, worker, boot_id_of(body)))
        return standing

    def _cordoned(self, pod: PodView) -> bool:
        node = self.state.nodes.get(pod.node_name)
        return node is None or node.unschedulable

    def _taint(self, host: GpuHost) -> str | None:
        """The value of the spare taint on a free spare's Node; None where it has none, or is not in the cluster."""
        status, body = host.status, self.state.node_body(host.status.node_name or "")
        if body is None or status.phase is not HostPhase.SPARE or status.claim is not None:
            return None
        return next((str(one.get("value", "")) for one in taints_of(body) if one["key"] == TAINT_SPARE), None)

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
            if self._taint(host) in {None, SPARE_WARM}:
                continue
            self._must_lead()
            result = await self.ports.replacer.seat(pool, host.spec.host)
            opened = opened or result.check is Check.PASSED
            self._say(host.spec.host, result.why or "stands by")
        return opened

    def _say(self, host: str, text: str) -> None:
        if self._said.get(host) != text:
            self._said[host] = text
            log.info("event=warm_spare host=%s state=%s", host, text)

    def _must_lead(self) -> None:
        if not self.ports.leading():
            raise NotLeadingError("another controller leads now")


def _in_hand(incidents: Iterable[Remediation]) -> InHand:
    open_ones = [record for record in incidents if is_open(record)]
    return InHand(
        owners={f"{INCIDENT}{record.metadata.name}" for record in open_ones},
        nodes={record.spec.node for record in open_ones},
        spares={record.status.replacement.spare_host or "" for record in open_ones},
        struck={name for record in open_ones for name in record.status.owned.slurm_down},
    )
