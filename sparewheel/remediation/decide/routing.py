"""Which message goes over which route, and where the owner of a job is reached. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Final

from sparewheel.api.enums import Severity
from sparewheel.api.remediation import Remediation
from sparewheel.api.remediation_policy import RemediationPolicySpec
from sparewheel.api.routes import Audience, EmailRoute, EventKind, PagerDutyRoute, Person, Route, SlackRoute
from sparewheel.remediation.decide.deliveries import Recipient
from sparewheel.remediation.decide.events import jobs_of

OWNER_EVENTS: Final = frozenset({EventKind.DETECTED, EventKind.JOB})
"""What an owner is told when the route doesn't say: that the job was hit, and how it went on."""

_USER: Final = re.compile(r"[A-Za-z0-9_][-A-Za-z0-9_.]{0,63}")


def passes(route: Route, kind: EventKind, severity: Severity, pool: str) -> bool:
    """True when the route's filters let the message through."""
    owner = route.audience is Audience.OWNER
    events = route.events or (OWNER_EVENTS if owner else ())
    return (
        (not events or kind in events)
        and (not route.severities or severity in route.severities)
        and (not route.pools or pool in route.pools)
    )


def routes_for(policy: RemediationPolicySpec, pool: str, kind: EventKind, severity: Severity) -> list[str]:
    """Names of the routes that tell it."""
    return [route.name for route in policy.routes if passes(route, kind, severity, pool)]


def find(routes: Iterable[Route], name: str) -> Route | None:
    return next((route for route in routes if route.name == name), None)


def address(route: Route, people: Mapping[str, Person], user: str) -> str:
    """Where the route reaches the user: a mail address, a Slack member id, or the name itself; empty: nowhere."""
    if not _USER.fullmatch(user):
        return ""  # a name from elsewhere must not become part of an address
    person = people.get(user, Person())
    match route:
        case EmailRoute():
            return person.email or route.owner_address.replace("{user}", user)
        case SlackRoute():
            return person.slack
        case PagerDutyRoute():
            return ""
        case _:
            return user


def fallback(policy: RemediationPolicySpec) -> str:
    """The platform's route that hears about an owner who has no address: the first one; empty when there is none."""
    return next((route.name for route in policy.routes if route.audience is Audience.PLATFORM), "")


def recipients(policy: RemediationPolicySpec, route: Route, record: Remediation, event: str) -> list[Recipient]:
    """The owners of the jobs that the event is about, each with the route that reaches them."""
    found: list[Recipient] = []
    for user in dict.fromkeys(job.user for job in jobs_of(record, event) if job.user):
        if address(route, policy.people, user):
            found.append(Recipient(user, route.name))
            continue
        other = fallback(policy)
        told = f"so route {other} tells the platform" if other else "and no route tells the platform"
        found.append(Recipient(user, other, f"User {user} has no address on route {route.name}, {told}."))
    return found
