"""What the rest of the product asks of notification: one message, to one route, once."""

from __future__ import annotations

from typing import Any, Protocol

Event = dict[str, Any]
"""A message as data, ready for JSON; the route's kind makes text of it. Fields:

``event``        what happened: ``incident.detected``, ``incident.waiting``, ``incident.closed``, ``job.resumed``,
                 ``breaker.open``, ``breaker.closed`` or ``test``
``severity``     ``info``, ``warning`` or ``critical``
``title``        one line without a full stop
``text``         what happened and what is done, in plain sentences; what becomes of each job stands in ``jobs``
``time``         RFC 3339, when the event was put into the outbox
``count``        how many messages this one tells; the fields below are those of the first where it is more than one
``incidents``    list of ``{remediation, node, pool, code, outcome}``; ``moreIncidents`` is how many are left out
``alert``        what the trouble is known by on a pager: the same from its first message to its last
``owner``        Slurm user whom it is for; empty: the platform
``note``         why the platform hears what is for an owner, or who closed the breaker; else empty
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
    """The message was not accepted; the message names the route, the cause and the next step. Safe to send again.

    ``permanent``: trying again is no use until somebody changes something. ``retry_after_seconds``: the receiver asks
    to be left alone for this long.
    """

    def __init__(self, message: str, *, permanent: bool = False, retry_after_seconds: float | None = None) -> None:
        super().__init__(message)
        self.permanent = permanent
        self.retry_after_seconds = retry_after_seconds


class Notifier(Protocol):
    """Delivers to routes by name."""

    async def send(self, route_name: str, event: Event, key: str) -> None:
        """Deliver ``event`` with the idempotency key ``key``; returns when accepted, raises NotifyError otherwise."""
        ...
