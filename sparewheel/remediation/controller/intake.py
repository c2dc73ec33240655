"""What becomes work: each change that a watch sees wakes who is concerned, and incidents are taken into hand."""

from __future__ import annotations

import logging
from dataclasses import dataclass
from typing import Final

from sparewheel.api.names import ANNOTATION_CANCEL, POLICY_NAME
from sparewheel.api.remediation import Remediation
from sparewheel.capacity.claims import is_free
from sparewheel.remediation.controller.queue import DueQueue, Key
from sparewheel.remediation.controller.state import State
from sparewheel.remediation.decide.deliveries import queued
from sparewheel.remediation.decide.record import is_open
from sparewheel.remediation.stages.incident import Incident, Ports
from sparewheel.remediation.stages.journal import Journal

log = logging.getLogger("sparewheel.remediation")

TRACKS: Final = ("track", "spare", "survivors", "jobs", "outbox")
NOT_YET_SECONDS: Final = 0.5
CALM_INCIDENTS: Final = 8
"""With more than this many in hand, each is looked at less often while it waits; what changes wakes it all the same."""


@dataclass(slots=True)
class Intake:
    ports: Ports
    state: State
    queue: DueQueue
    at_work: bool = False
    """Only a leader takes up work."""

    def take_everything_up(self) -> None:
        for name in list(self.state.records):
            self.wake("record", name)
        for name in list(self.state.nodes):
            self.wake("node", name)
        for name in list(self.state.pools):
            self.wake("pool", name)
        self.queue.add(Key("sweep", "all"))
        self.queue.add(Key("notify-test", POLICY_NAME))
        self.queue.add(Key("breaker", POLICY_NAME))

    def wake(self, kind: str, name: str) -> None:
        if not self.at_work:
            return
        match kind:
            case "record":
                record = self.state.records.get(name)
                if record is None:
                    self.queue.add(Key("events", name))  # forgets what it wrote
                if record is None and name in self.state.taken:  # deleted: its track reads it again, and finds that out
                    self.state.taken[name].journal.doubt()
                    self.queue.add(Key("track", name))
                self.take(record)
                self._look_for_wish(record)
            case "spares":
                pool, _, host = name.partition("/")
                seen = self.state.hosts.get(host)
                if seen is not None and is_free(seen):
                    self.ports.replacer.freed(pool)
                self.wake_searches(pool, host)
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

    def wake_searches(self, pool: str, host: str) -> None:
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

    def found(self, record: Remediation) -> None:
        """An incident was opened, or there is something to tell of one; the record is newer than the cache."""
        self.state.put_record(record)
        self.take(record, fresh=True)

    def tell(self, record: Remediation) -> None:
        self.found(record)
        self.queue.add(Key("outbox", record.metadata.name))

    def take(self, record: Remediation | None, *, fresh: bool = False) -> None:
        """Work on the incident, unless nothing of it is left to do."""
        if record is None or record.metadata.name in self.state.taken or not unfinished(record):
            return
        if record.metadata.name in self.state.in_making:
            return  # taken when the answer is here, or woken then
        journal = Journal(self.ports.kube, record, fresh=fresh)
        incident = Incident(self.ports, journal, taken_monotonic=self.ports.clock.monotonic_seconds())
        self.state.take(incident)
        log.info("event=incident incident=%s stage=%s node=%s", incident.name, record.status.stage, record.spec.node)
        for track in TRACKS:
            self.queue.add(Key(track, incident.name))


def unfinished(record: Remediation) -> bool:
    """Open, or a job still followed, or a message still to deliver."""
    status = record.status
    return is_open(record) or any(not job.closed for job in status.jobs) or bool(queued(record))
