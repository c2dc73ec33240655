"""What the rest of the product asks of notification: one message, to one route, once."""

from __future__ import annotations

from typing import Any, Protocol

Event = dict[str, Any]
"""A message as data, ready for JSON; the route's format makes text of it. Fields:

``event``        what happened: ``incident.detected``, ``incident.waiting``, ``incident.closed`` or ``job.resumed``
``severity``     ``info``, ``warning`` or ``critical``
``title``        one line without a full stop
``text``         what happened and what is done, in plain sentences; what becomes of each job stands in ``jobs``
``time``         RFC 3339, when the event was put into the outbox
``remediation``  name of the record
``node``, ``pool``, ``stage``, ``outcome``
``fault``        ``{code, device, gpuIndex, message, firstSeen}``
``jobs``         list of ``{jobId, user, name, what, actionNeeded}``; ``what`` is a sentence
``durations``    stage name to seconds since the fault, of the stages that have ended
``actionNeeded`` True when a person has to do something
``drill``        True when the fault was injected on purpose
``dryRun``       True when nothing was touched
"""


class NotifyError(Exception):
    """The message was not accepted; the message names the route, the cause and the next step. Safe to send again."""


class Notifier(Protocol):
    """Delivers to routes by name."""

    async def send(self, route_name: str, event: Event, key: str) -> None:
        """Deliver ``event`` with the idempotency key ``key``; returns when accepted, raises NotifyError otherwise."""
        ...
