"""Writes the incidents' Events. For people: one that can't be written is a line in the log and holds nothing up."""

from __future__ import annotations

import logging
from collections.abc import Collection
from dataclasses import dataclass, field

from sparewheel.kube.pace import URGENCY, Urgency
from sparewheel.kube.port import EVENT, ConflictError, InvalidError, KubeError
from sparewheel.remediation.controller.state import State
from sparewheel.remediation.decide.happenings import event_bodies, happenings

log = logging.getLogger("sparewheel.remediation")

RETRY_SECONDS = 30.0
GATHER_SECONDS = 1.0
"""Steps that follow each other within this are written in one look."""


@dataclass(slots=True)
class Events:
    """An Event's name is made of the record and what happened: written again, by whomever, it is the same one."""

    state: State
    identity: str
    _written: dict[str, set[str]] = field(default_factory=dict[str, set[str]])

    def keep_only(self, records: Collection[str]) -> None:
        """Forget what was written of other records: their deletion may have gone by while another led."""
        for name in self._written.keys() - records:
            del self._written[name]

    async def look(self, name: str) -> float | None:
        """Write what has happened in an incident and was not written yet; seconds until a retry, None without one."""
        URGENCY.set(Urgency.BACKGROUND)
        record = self.state.newest(name)
        if record is None:
            self._written.pop(name, None)
            return None
        written = self._written.setdefault(name, set())
        for happening in happenings(record):
            if happening.key in written:
                continue
            for body in event_bodies(record, happening, self.identity, self.state.clock.now()):
                try:
                    await self.state.kube.create(EVENT, body, body["metadata"]["namespace"])
                except ConflictError:
                    continue
                except InvalidError as error:  # asked again, it would be refused again
                    log.warning("event=event_refused incident=%s what=%s error=%s", name, happening.key, error)
                except KubeError as error:
                    log.info("event=event_not_written incident=%s what=%s error=%s", name, happening.key, error)
                    return RETRY_SECONDS
            written.add(happening.key)
        return None
