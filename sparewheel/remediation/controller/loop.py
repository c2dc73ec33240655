"""The controller: watches always, and while it leads works off what is due. All it knows is in the cluster.

Level-triggered, one key at a time; killing it loses nothing. What becomes due: ``intake``; who looks: ``dispatch``.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field

from sparewheel import tasks
from sparewheel.api.names import CONTROLLER_LEASE
from sparewheel.clock import Clock
from sparewheel.kube.lease import LeaseHandle, LeaseLostError, LeaseTiming, WhileWaiting, held
from sparewheel.kube.port import Kube
from sparewheel.notify.port import Notifier
from sparewheel.remediation.controller.breaker_end import BreakerEnd
from sparewheel.remediation.controller.dispatch import Dispatch
from sparewheel.remediation.controller.events import Events
from sparewheel.remediation.controller.intake import Intake
from sparewheel.remediation.controller.pool_leases import PoolLeases
from sparewheel.remediation.controller.pools import Pools, Reconcile
from sparewheel.remediation.controller.queue import DueQueue
from sparewheel.remediation.controller.removed import RemovedNodes
from sparewheel.remediation.controller.scout import Scout
from sparewheel.remediation.controller.state import State
from sparewheel.remediation.controller.trial import Tester
from sparewheel.remediation.controller.unmet import Unmet
from sparewheel.remediation.controller.warm_spares import WarmSpares
from sparewheel.remediation.controller.watches import Watches
from sparewheel.remediation.stages.incident import NotLeadingError, Ports
from sparewheel.remediation.stages.replacer import Replacer
from sparewheel.slurm.port import Slurm

log = logging.getLogger("sparewheel.remediation")


@dataclass(slots=True)
class Controller:
    """Run ``run()``. ``identity`` tells replicas apart; ``version`` goes into the leases."""

    kube: Kube
    slurm: Slurm
    replacer: Replacer
    notifier: Notifier
    clock: Clock
    namespace: str
    identity: str
    version: str
    state: State = field(init=False)
    queue: DueQueue = field(init=False)
    watches: Watches = field(init=False)
    ports: Ports = field(init=False)
    scout: Scout = field(init=False)
    pool_leases: PoolLeases = field(init=False)
    events: Events = field(init=False)
    intake: Intake = field(init=False)
    dispatch: Dispatch = field(init=False)
    reconcile_pool: Reconcile | None = None
    """Brings a pool to its size; None where capacity is somebody else's."""
    timing: LeaseTiming = field(default_factory=LeaseTiming)
    jitter: Callable[[], float] = lambda: 0.0
    """0 to 1: spreads the tries of messages."""
    _handle: LeaseHandle | None = None

    def __post_init__(self) -> None:
        self.state = State(self.kube, self.clock, self.namespace)
        self.queue = DueQueue(self.clock)
        self.pool_leases = PoolLeases(self.kube, self.clock, self.namespace, self.identity, self.version)
        self.ports = Ports(
            kube=self.kube,
            slurm=self.slurm,
            replacer=self.replacer,
            notifier=self.notifier,
            clock=self.clock,
            fleet=self.state,
            namespace=self.namespace,
            leading=self.leading,
            drive=self.pool_leases.drive,
            jitter=self.jitter,
        )
        self.intake = Intake(self.ports, self.state, self.queue)
        self.watches = Watches(self.state, self.intake.wake)
        self.events = Events(self.state, self.identity)
        self.scout = Scout(self.ports, self.state, self.intake.found, self.intake.wake, self.watches.troubles)
        driven = self.reconcile_pool
        self.dispatch = Dispatch(
            ports=self.ports,
            state=self.state,
            queue=self.queue,
            scout=self.scout,
            removed=RemovedNodes(self.ports, self.state, self.intake.found, self.watches.troubles),
            events=self.events,
            warm_spares=WarmSpares(self.ports, self.state),
            tester=Tester(self.ports, self.state),
            breaker_end=BreakerEnd(self.ports, self.state, self.intake.tell),
            pool_leases=self.pool_leases,
            pools=Pools(self.state, self.pool_leases, driven, self._must_lead) if driven is not None else None,
            unmet=Unmet(self.clock),
        )

    # ---------------------------------------------------------------- leading
    def leading(self) -> bool:
        if self._handle is None:
            return False
        try:
            self._handle.check()
        except LeaseLostError:
            return False
        return True

    def _must_lead(self) -> None:
        if not self.leading():
            raise NotLeadingError(f"{self.identity} no longer leads")

    async def run(self) -> None:
        """Watch always; act while leading. Returns only when cancelled."""
        watching = asyncio.create_task(self._watch(), name="watches")
        try:
            await self._or_watching(watching, self.watches.synced())
            while True:
                await self._or_watching(watching, self._lead_once())
        finally:
            await tasks.ended(watching)

    async def _watch(self) -> None:
        """Caches and memory, warm on standby too."""
        async with asyncio.TaskGroup() as group:
            group.create_task(self.watches.run(), name="watches")
            group.create_task(self.scout.remember_for_ever(), name="jobs")

    async def _or_watching(self, watching: asyncio.Task[None], work: Awaitable[None]) -> None:
        """Do the work; when the watches fail for good, fail with them."""
        task = asyncio.ensure_future(work)
        try:
            await asyncio.wait({task, watching}, return_when=asyncio.FIRST_COMPLETED)
        except asyncio.CancelledError:
            await tasks.ended(task)
            raise
        if watching.done():
            await tasks.ended(task)
            await watching
        await task

    async def _lead_once(self) -> None:
        """Wait for the lease, lead until it is lost, then let others go first."""
        lost = False
        log.info("event=standby identity=%s", self.identity)
        try:
            async with held(
                self.kube,
                CONTROLLER_LEASE,
                self.namespace,
                self.identity,
                self.clock,
                version=self.version,
                timing=self.timing,
                while_waiting=WhileWaiting(silence=self.scout.api_failed),
            ) as handle:
                self._handle = handle
                log.info("event=leading identity=%s", self.identity)
                self.intake.at_work = True
                self.events.keep_only(self.state.records.keys())
                self.intake.take_everything_up()
                await self.queue.run(self.dispatch.look)
        except LeaseLostError as error:
            log.warning("event=lease_lost identity=%s error=%s", self.identity, error)
            self.scout.api_failed()
            lost = True
        finally:
            self._handle = None
            self.intake.at_work = False
            self.queue.clear()
            self.state.let_all_go()
            self.dispatch.failures.clear()
            await self.pool_leases.drop_all()
        if lost:
            await self.clock.sleep(self.timing.stand_back_seconds)
