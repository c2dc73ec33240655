"""Preconditions that stay unmet: logged once per change, and shown in the record when they last."""

from __future__ import annotations

import logging
from dataclasses import dataclass, field

from sparewheel.clock import Clock
from sparewheel.remediation.controller.queue import Key
from sparewheel.remediation.decide.record import waiting
from sparewheel.remediation.stages import replaced
from sparewheel.remediation.stages.incident import Incident, PreconditionError

log = logging.getLogger("sparewheel.remediation")

SHOW_AFTER_SECONDS = 3.0
"""Most are met at the next look or the one after it."""


@dataclass(slots=True)
class _Since:
    text: str
    monotonic_seconds: float


@dataclass(slots=True)
class Unmet:
    clock: Clock
    _since: dict[Key, _Since] = field(default_factory=dict[Key, _Since])

    async def note(self, key: Key, incident: Incident | None, error: PreconditionError) -> None:
        """``key`` was looked at in vain. Raises what the journal raises."""
        now, text = self.clock.monotonic_seconds(), str(error)
        known = self._since.get(key)
        if known is None or known.text != text:
            log.info("event=not_yet key=%s/%s reason=%s", key.kind, key.name, text)
            known = self._since[key] = _Since(text, now)
        if incident is None or now - known.monotonic_seconds < SHOW_AFTER_SECONDS:
            return
        words = in_words(text, incident.name)
        if key.kind == "spare":
            await replaced.say(incident, words)
        else:
            incident.unmet = words
            await incident.update(waiting(words, incident.now()))

    async def met(self, key: Key, incident: Incident | None) -> None:
        """``key`` was looked at and nothing was missing."""
        if self._since.pop(key, None) is None or incident is None or key.kind == "spare" or not incident.unmet:
            return
        words, incident.unmet = incident.unmet, ""
        if incident.record.status.waiting_for == words:
            await incident.update(waiting("", None))

    def forget(self, name: str) -> None:
        """The incident is over."""
        self._since = {key: since for key, since in self._since.items() if key.name.partition("/")[0] != name}


def in_words(text: str, name: str) -> str:
    """What is waited for, without the incident's own name, which stands beside it already."""
    for prefix in (f"{name} waits for ", f"{name}: ", f"{name} "):
        if text.startswith(prefix):
            return text.removeprefix(prefix)
    return text
