"""The loop: one key at a time, level-triggered. Everything it knows is in the cluster; killing it loses nothing."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from contextlib import suppress
from dataclasses import dataclass, field

from sparewheel import tasks
from sparewheel.api.names import ANNOTATION_CANCEL, CONTROLLER_LEASE, POLICY_NAME
from sparewheel.api.remediation import NodeStage, Remediation
from sparewheel.capacity.port import CapacityError
from sparewheel.clock import Clock
from sparewheel.kube.lease import LeaseHandle, LeaseLostError, LeaseTiming, WhileWaiting, held
from sparewheel.kube.pace import URGENCY, Urgency
from sparewheel.kube.port import Kube, KubeError
from sparewheel.notify.port import Notifier
from sparewheel.remediation.controller.breaker_end import BreakerEnd
from sparewheel.remediation.controller.events import GATHER_SECONDS, Events
from sparewheel.remediation.controller.pool_leases import PoolLeases
from sparewheel.remediation.controller.pools import Pools, Reconcile
from sparewheel.remediation.controller.queue import DueQueue, Key
from sparewheel.remediation.controller.removed import RemovedNodes
from sparewheel.remediation.controller.scout import Scout
from sparewheel.remediation.controller.state import State
from sparewheel.remediation.controller.trial import Tester
from sparewheel.remediation.controller.unmet import Unmet
from sparewheel.remediation.controller.warm_spares import WarmSpares
from sparewheel.remediation.controller.watches import Watches
from sparewheel.remediation.decide.deliveries import queued
from sparewheel.remediation.decide.record import ended, is_open
from sparewheel.remediation.decide.triage import still_open
from sparewheel.remediation.stages import outbox, survivors, tracks
from sparewheel.remediation.stages.incident import Incident, NotLeadingError, Ports, PreconditionError
from sparewheel.remediation.stages.journal import Journal, RecordGoneError
from sparewheel.remediation.stages.replacer import Replacer
from sparewheel.remediation.stages.trouble import say_waits
from sparewheel.slurm.port import Slurm, SlurmError

log = logging.getLogger("sparewheel.remediation")

TRACKS = ("track", "spare", "survivors", "jobs", "outbox")
ROUTE = "route"
"""Key of one route of an incident's outbox: ``INCIDENT/ROUTE``."""
SWEEP_SECONDS = 2.0
FRESH_REPORT_SECONDS = 15.0
NOT_YET_SECONDS = 0.5
FIRST_RETRY_SECONDS = 0.5
LAST_RETRY_SECONDS = 30.0
CALM_INCIDENTS = 8
"""With more than this many in hand, each is looked at less often while it waits; what changes wakes it all the same."""
TRACK_RETRY_SECONDS = 5.0
"""A job waits for it: never longer than this."""


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
    removed: RemovedNodes = field(init=False)
    pool_leases: PoolLeases = field(init=False)
    tester: Tester = field(init=False)
    warm_spares: WarmSpares = field(init=False)
    events: Events = field(init=False)
    breaker_end: BreakerEnd = field(init=False)
    unmet: Unmet = field(init=False)
    reconcile_pool: Reconcile | None = None
    """Brings a pool to its size; None where capacity is somebody else's."""
    pools: Pools | None = field(init=False, default=None)
    timing: LeaseTiming = field(default_factory=LeaseTiming)
    jitter: Callable[[], float] = lambda: 0.0
    """0 to 1: spreads the tries of messages."""
    _handle: LeaseHandle | None = None
    _failures: dict[Key, int] = field(default_factory=dict[Key, int])

    def __post_init__(self) -> None:
        self.state = State(self.kube, self.clock, self.namespace)
        self.queue = DueQueue(self.clock)
        self.watches = Watches(self.state, self._wake)
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
        if self.reconcile_pool is not None:
            self.pools = Pools(self.state, self.pool_leases, self.reconcile_pool, self._must_lead)
        self.tester = Tester(self.ports, self.state)
        self.warm_spares = WarmSpares(self.ports, self.state)
        self.events = Events(self.state, self.identity)
        self.breaker_end = BreakerEnd(self.ports, self.state, self._tell)
        self.unmet = Unmet(self.clock)
        self.scout = Scout(self.ports, self.state, self._found, self.watches.troubles)
        self.removed = RemovedNodes(self.ports, self.state, self._found, self.watches.troubles)

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
        """Wait for the lease, lead until it is lost."""
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
                self._take_everything_up()
                await self.queue.run(self._look)
        except LeaseLostError as error:
            log.warning("event=lease_lost identity=%s error=%s", self.identity, error)
            self.scout.api_failed()
        finally:
            self._handle = None
            self.queue.clear()
            self.state.let_all_go()
            self._failures.clear()
            await self.pool_leases.drop_all()

    def _take_everything_up(self) -> None:
        self.events.keep_only(self.state.records.keys())
        for name in list(self.state.records):
            self._wake("record", name)
        for name in list(self.state.nodes):
            self._wake("node", name)
        for name in list(self.state.pools):
            self._wake("pool", name)
        self.queue.add(Key("sweep", "all"))
        self.queue.add(Key("notify-test", POLICY_NAME))
        self.queue.add(Key("breaker", POLICY_NAME))

    # ---------------------------------------------------------------- waking
    def _wake(self, kind: str, name: str) -> None:
        if self._handle is None:
            return
        match kind:
            case "record":
                record = self.state.records.get(name)
                if record is None:
                    self.queue.add(Key("events", name))  # forgets what it wrote
                if record is None and name in self.state.taken:  # deleted: its track reads it again, and finds that out
                    self.state.taken[name].journal.doubt()
                    self.queue.add(Key("track", name))
                self._take(record)
                self._look_for_wish(record)
            case "spares":
                pool, _, host = name.partition("/")
                self._wake_searches(pool, host)
                self.queue.add(Key("pool", pool), 1.0)
                self.queue.add(Key("warm", pool))
            case "pool":
                self.queue.add(Key("pool", name))
                self.queue.add(Key("warm", name))
            case "node":
                self.queue.add(Key("node", name))
                for incident in self.state.taken_on(name):
                    if is_open(incident.record):
                        self.queue.add(Key("track", incident.name))
            case _:
                self.queue.add(Key(kind, name))

    def _wake_searches(self, pool: str, host: str) -> None:
        """The host changed: it is an incident's own spare, or may be one for those that have none.

        In a storm each of them would look, with three requests, at each step of each other's spare.
        """
        crowd = len(self.state.taken) / CALM_INCIDENTS
        for incident in self.state.taken.values():
            held = incident.record.status.replacement.spare_host
            if incident.record.spec.pool == pool and held in {None, host}:
                after = NOT_YET_SECONDS * crowd if held is None and crowd > 1 else 0.0
                self.queue.add(Key("spare", incident.name), after)

    def _look_for_wish(self, record: Remediation | None) -> None:
        """A person called the incident off: its journal is behind, and its tracks look again at once."""
        incident = self.state.taken.get(record.metadata.name) if record is not None else None
        if record is None or incident is None or ANNOTATION_CANCEL not in record.metadata.annotations:
            return
        if ANNOTATION_CANCEL not in incident.record.metadata.annotations:
            incident.journal.doubt()
            self.queue.add(Key("track", incident.name))

    def _found(self, record: Remediation) -> None:
        """An incident was opened, or there is something to tell of one; the record is newer than the cache."""
        self.state.put_record(record)
        self._take(record, fresh=True)

    def _tell(self, record: Remediation) -> None:
        self._found(record)
        self.queue.add(Key("outbox", record.metadata.name))

    def _take(self, record: Remediation | None, *, fresh: bool = False) -> None:
        """Work on the incident, unless nothing of it is left to do."""
        if record is None or record.metadata.name in self.state.taken or not _unfinished(record):
            return
        journal = Journal(self.kube, record, fresh=fresh)
        incident = Incident(self.ports, journal, taken_monotonic=self.clock.monotonic_seconds())
        self.state.take(incident)
        log.info("event=incident incident=%s stage=%s node=%s", incident.name, record.status.stage, record.spec.node)
        for track in TRACKS:
            self.queue.add(Key(track, incident.name))

    # ---------------------------------------------------------------- looking
    async def _look(self, key: Key) -> float | None:
        """One look, and what becomes of an error: wait longer and longer, never assume."""
        try:
            pause = await self._dispatch(key)
        except RecordGoneError as error:
            log.warning("event=record_gone error=%s", error)
            await self._record_gone(_incident_of(key))
            return None
        except (NotLeadingError, LeaseLostError) as error:
            log.info("event=stopped key=%s/%s reason=%s", key.kind, key.name, error)
            return 1.0
        except PreconditionError as error:
            return await self._not_yet(key, error)
        except (KubeError, SlurmError, CapacityError) as error:
            return await self._failed(key, error)
        except Exception:
            log.exception("event=bug key=%s/%s", key.kind, key.name)
            return self._later(key)
        self._failures.pop(key, None)
        with suppress(KubeError, NotLeadingError, RecordGoneError):
            await self.unmet.met(key, self.state.taken.get(key.name))
        if pause and key.kind in TRACKS:
            pause *= max(1.0, len(self.state.taken) / CALM_INCIDENTS)
        if key.kind in TRACKS or key.kind == ROUTE:
            self._finish(_incident_of(key))
        return pause

    async def _record_gone(self, name: str) -> None:
        incident = self.state.taken.get(name)
        self._forget(name)
        if incident is not None:
            with suppress(NotLeadingError):
                await survivors.drop(incident)

    async def _not_yet(self, key: Key, error: PreconditionError) -> float:
        with suppress(KubeError, NotLeadingError, RecordGoneError):
            await self.unmet.note(key, self.state.taken.get(key.name), error)
        return NOT_YET_SECONDS

    async def _failed(self, key: Key, error: Exception) -> float:
        pause = self._later(key)
        count = self._failures[key]
        log.warning("event=failed key=%s/%s times=%d next=%.1f error=%s", key.kind, key.name, count, pause, error)
        incident = self.state.taken.get(key.name)
        if key.kind in {"track", "spare"} and incident is not None:
            with suppress(KubeError, NotLeadingError, RecordGoneError):
                await say_waits(incident, error, count, spare=key.kind == "spare")
                self.queue.add(Key("outbox", incident.name))
        return pause

    def _later(self, key: Key) -> float:
        count = self._failures.get(key, 0)
        self._failures[key] = count + 1
        last = TRACK_RETRY_SECONDS if key.kind in (*TRACKS, ROUTE) else LAST_RETRY_SECONDS
        return min(last, FIRST_RETRY_SECONDS * 2 ** min(count, 10))

    async def _dispatch(self, key: Key) -> float | None:
        URGENCY.set(self._urgency(key))
        looks: dict[str, Callable[[str], Awaitable[float | None]]] = {
            "node": self.scout.triage,
            "silence": self.scout.probe,
            "removed": self.removed.look,
            "events": self.events.look,
            "warm": self.warm_spares.look,
        }
        if key.kind in looks:
            return await looks[key.kind](key.name)
        match key.kind:
            case "sweep":
                return await self._sweep()
            case "notify-test":
                return await self.tester.look()
            case "breaker":
                return await self.breaker_end.look()
            case "pool":
                return await self.pools.look(key.name) if self.pools is not None else None
            case _:
                return await self._incident(key)

    def _urgency(self, key: Key) -> Urgency:
        """Until a node is fenced its jobs compute for nothing: nothing else of ours goes before that."""
        if key.kind == "node":
            return Urgency.FENCE
        if key.kind == "track":
            incident = self.state.taken.get(key.name)
            fenced = incident is None or ended(incident.record.status, NodeStage.FENCED)
            return Urgency.NORMAL if fenced else Urgency.FENCE
        return Urgency.NORMAL if key.kind in {*TRACKS, "silence"} else Urgency.BACKGROUND

    async def _sweep(self) -> float:
        """Look at silent nodes; give back the leases of pools where nothing goes on."""
        self.state.forget_strangers()
        healing = {i.record.spec.pool for i in self.state.taken.values() if _drives(i.record)}
        reconciling = {key.name for key in self.queue.running if key.kind == "pool"}
        waited = self.pools.waits if self.pools is not None else set[str]()
        self.pool_leases.keep_only(healing | reconciling | waited)
        for node in self.scout.silent_nodes():
            self.queue.add(Key("silence", node))
        for host in self.removed.due():
            self.queue.add(Key("removed", host))
        return SWEEP_SECONDS

    async def _incident(self, key: Key) -> float | None:
        incident = self.state.taken.get(_incident_of(key))
        if incident is None:
            return None
        match key.kind:
            case "track":
                pause = await tracks.node_pass(incident, fault_open=self._fault_open(incident))
                for track in TRACKS if pause == tracks.AT_ONCE else ("outbox",):
                    self.queue.add(Key(track, key.name))
                self.queue.add(Key("events", key.name), GATHER_SECONDS)
                return pause
            case "spare":
                pause = await tracks.spare_pass(incident)
                if pause == tracks.AT_ONCE:
                    self.queue.add(Key("track", key.name))
                    self.queue.add(Key("survivors", key.name))
                    self.queue.add(Key("jobs", key.name))  # a spare that is given up may have struck them again
                return pause
            case "survivors":
                return await survivors.look(incident)
            case "jobs":
                pause = await tracks.jobs_pass(incident)
                self.queue.add(Key("outbox", key.name))
                self.queue.add(Key("events", key.name), GATHER_SECONDS)
                return pause
            case "outbox":
                routes, pause = await outbox.sort(incident)
                for route in routes:
                    self.queue.add(Key(ROUTE, f"{key.name}/{route}"))
                return pause
            case _:
                return await outbox.act(incident, key.name.partition("/")[2])

    def _fault_open(self, incident: Incident) -> bool | None:
        """An agent that says nothing for this long may have died of the fault that it reported."""
        report = self.scout.report(incident.record.spec.node)
        found = True if report is None else still_open(incident.record, report)
        waited = self.clock.monotonic_seconds() - incident.taken_monotonic
        return True if found is None and waited > FRESH_REPORT_SECONDS else found

    def _finish(self, name: str) -> None:
        incident = self.state.taken.get(name)
        if incident is not None and not _unfinished(incident.record):
            log.info("event=done incident=%s outcome=%s", name, incident.record.status.outcome)
            self.state.put_record(incident.record)
            self._forget(name)

    def _forget(self, name: str) -> None:
        self.state.let_go(name)
        for track in TRACKS:
            self.queue.drop(Key(track, name))
        self.unmet.forget(name)
        self._failures = {key: count for key, count in self._failures.items() if _incident_of(key) != name}
        for key in self.queue.keys:
            if key.kind == ROUTE and _incident_of(key) == name:
                self.queue.drop(key)


def _incident_of(key: Key) -> str:
    """A Kubernetes name holds no slash."""
    return key.name.partition("/")[0]


def _unfinished(record: Remediation) -> bool:
    """Open, or a job still followed, or a message still to deliver."""
    status = record.status
    return is_open(record) or any(not job.closed for job in status.jobs) or bool(queued(record))


def _drives(record: Remediation) -> bool:
    return is_open(record) and not record.spec.dry_run
