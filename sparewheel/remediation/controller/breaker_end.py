"""Tells who heard that the breaker is open that a person has closed it, so that no alert stays open on a pager."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass

from sparewheel.api.remediation import Remediation
from sparewheel.remediation.controller.state import State
from sparewheel.remediation.decide.breaker import end_words, untold_ends
from sparewheel.remediation.decide.deliveries import enqueue
from sparewheel.remediation.stages.incident import Incident, Ports
from sparewheel.remediation.stages.journal import Journal, RecordGoneError


@dataclass(slots=True)
class BreakerEnd:
    ports: Ports
    state: State
    queued: Callable[[Remediation], None]
    """There is something to send in the record's outbox."""

    async def look(self) -> None:
        """The incident may have ended long before. Raises KubeError."""
        status = self.state.policy_status
        for record in [one for one in self.state.newest_records() if untold_ends(one, status)]:
            incident = self.state.taken.get(record.metadata.name) or Incident(
                self.ports, Journal(self.ports.kube, record)
            )
            with suppress(RecordGoneError):
                await self._tell(incident)
                self.queued(incident.record)

    async def _tell(self, incident: Incident) -> None:
        incident.lead()
        await incident.journal.make_sure()
        status = await incident.ports.breaker.get()  # the cache may not have seen it open
        note, now = end_words(status), incident.now()
        for event, routes in untold_ends(incident.record, status).items():
            await incident.update(enqueue(incident.name, event, routes, now, note))
