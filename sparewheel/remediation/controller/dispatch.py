"""Who looks at a key, what one look of an incident's track leads to, and what becomes of an error."""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Final

from sparewheel.api.remediation import NodeStage, Remediation
from sparewheel.capacity.port import CapacityError
from sparewheel.kube.lease import LeaseLostError
from sparewheel.kube.pace import URGENCY, Urgency
from sparewheel.kube.port import KubeError
from sparewheel.remediation.controller.breaker_end import BreakerEnd
from sparewheel.remediation.controller.events import GATHER_SECONDS, Events
from sparewheel.remediation.controller.intake import CALM_INCIDENTS, NOT_YET_SECONDS, TRACKS, unfinished
from sparewheel.remediation.controller.pool_leases import PoolLeases
from sparewheel.remediation.controller.pools import Pools
from sparewheel.remediation.controller.queue import DueQueue, Key
from sparewheel.remediation.controller.removed import RemovedNodes
from sparewheel.remediation.controller.scout import Scout
from sparewheel.remediation.controller.state import State
from sparewheel.remediation.controller.trial import Tester
from sparewheel.remediation.controller.unmet import Unmet
from sparewheel.remediation.controller.warm_spares import WarmSpares
from sparewheel.remediation.decide.record import ended, is_open
from sparewheel.remediation.decide.triage import still_open
from sparewheel.remediation.stages import outbox, survivors, tracks
from sparewheel.remediation.stages.incident import Incident, NotLeadingError, Ports, PreconditionError
from sparewheel.remediation.stages.journal import RecordGoneError
from sparewheel.remediation.stages.trouble import say_waits
from sparewheel.slurm.port import SlurmError

log = logging.getLogger("sparewheel.remediation")

ROUTE: Final = "route"
"""Key of one route of an incident's outbox: ``INCIDENT/ROUTE``."""
SWEEP_SECONDS: Final = 2.0
FRESH_REPORT_SECONDS: Final = 15.0
FIRST_RETRY_SECONDS: Final = 0.5
LAST_RETRY_SECONDS: Final = 30.0
TRACK_RETRY_SECONDS: Final = 5.0
"""A job waits for it: never longer than this."""


@dataclass(slots=True)
class Dispatch:
    """``pools`` is None where capacity is somebody else's."""

    ports: Ports
    state: State
    queue: DueQueue
    scout: Scout
    removed: RemovedNodes
    events: Events
    warm_spares: WarmSpares
    tester: Tester
    breaker_end: BreakerEnd
    pool_leases: PoolLeases
    pools: Pools | None
    unmet: Unmet
    failures: dict[Key, int] = field(default_factory=dict[Key, int])

    async def look(self, key: Key) -> float | None:
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
        self.failures.pop(key, None)
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
        count = self.failures[key]
        log.warning("event=failed key=%s/%s times=%d next=%.1f error=%s", key.kind, key.name, count, pause, error)
        incident = self.state.taken.get(key.name)
        if key.kind in {"track", "spare"} and incident is not None:
            with suppress(KubeError, NotLeadingError, RecordGoneError):
                await say_waits(incident, error, count, spare=key.kind == "spare")
                self.queue.add(Key("outbox", incident.name))
        return pause

    def _later(self, key: Key) -> float:
        count = self.failures.get(key, 0)
        self.failures[key] = count + 1
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
        waited = self.ports.clock.monotonic_seconds() - incident.taken_monotonic
        return True if found is None and waited > FRESH_REPORT_SECONDS else found

    def _finish(self, name: str) -> None:
        incident = self.state.taken.get(name)
        if incident is not None and not unfinished(incident.record):
            log.info("event=done incident=%s outcome=%s", name, incident.record.status.outcome)
            self.state.put_record(incident.record)
            self._forget(name)

    def _forget(self, name: str) -> None:
        self.state.let_go(name)
        for track in TRACKS:
            self.queue.drop(Key(track, name))
        self.unmet.forget(name)
        self.failures = {key: count for key, count in self.failures.items() if _incident_of(key) != name}
        for key in self.queue.keys:
            if key.kind == ROUTE and _incident_of(key) == name:
                self.queue.drop(key)


def _incident_of(key: Key) -> str:
    """A Kubernetes name holds no slash."""
    return key.name.partition("/")[0]


def _drives(record: Remediation) -> bool:
    return is_open(record) and not record.spec.dry_run
