"""Routes: where messages go, which of them, and who the people are that they are about."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated, Literal

from pydantic import Field

from sparewheel.api.base import ApiModel
from sparewheel.api.enums import Severity
from sparewheel.api.gpu_pool import SecretKeyRef

DEFAULT_GROUP_SECONDS = 10.0
MAX_GROUP_SECONDS = 600.0
PAGERDUTY_URL = "https://events.pagerduty.com/v2/enqueue"
"""PagerDuty's Events API v2; accounts in Europe use ``events.eu.pagerduty.com``."""


class EventKind(StrEnum):
    """What a route can be asked to tell, and what it can leave out."""

    DETECTED = "detected"
    WAITING = "waiting"
    JOB = "job"
    """A job goes on, or does not come back by itself."""
    CLOSED = "closed"
    """Healed, superseded, or the end of a dry run."""
    CANCELLED = "cancelled"
    FAILED = "failed"
    BREAKER = "breaker"
    """So many nodes were fenced that further ones are only drained."""


class Audience(StrEnum):
    PLATFORM = "platform"
    """Those who run the platform: everything, once per route."""
    OWNER = "owner"
    """The user of each job concerned: their own jobs, and nobody else's."""


class MailSecurity(StrEnum):
    STARTTLS = "starttls"
    """Plain at first, then TLS before anything is said; refused when the server doesn't offer it."""
    TLS = "tls"
    """TLS from the first byte."""
    NONE = "none"


class Person(ApiModel):
    """How a Slurm user is reached."""

    email: str = ""
    slack: str = ""
    """Slack's member id, such as ``U012AB3CD``; the message mentions it."""


class RouteBase(ApiModel):
    """What all kinds share. An empty filter lets everything pass that is for the audience."""

    name: str = Field(pattern=r"^[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?$")
    audience: Audience = Audience.PLATFORM
    severities: list[Severity] = Field(default_factory=list[Severity])
    pools: list[str] = Field(default_factory=list[str])
    events: list[EventKind] = Field(default_factory=list[EventKind])
    """Empty: all for the platform; ``detected`` and ``job`` for owners."""
    group_seconds: float = Field(default=DEFAULT_GROUP_SECONDS, ge=0, le=MAX_GROUP_SECONDS)
    """The first message goes at once; what follows within this time is one summary. 0: each goes alone."""
    ca_certificate: str = ""
    """PEM, trusted beside the system's authorities."""


class WebhookRoute(RouteBase):
    """JSON to an address of your own."""

    kind: Literal["webhook"] = "webhook"
    url_ref: SecretKeyRef
    signing_ref: SecretKeyRef | None = None
    """Key of the signature; ``sparewheel.notify.signing`` names the headers."""


class SlackRoute(RouteBase):
    """An incoming webhook of Slack. Its address is a credential in itself."""

    kind: Literal["slack"] = "slack"
    url_ref: SecretKeyRef


class EmailRoute(RouteBase):
    """Mail over SMTP."""

    kind: Literal["email"] = "email"
    host: str
    port: int = Field(default=587, ge=1, le=65535)
    security: MailSecurity = MailSecurity.STARTTLS
    username: str = ""
    password_ref: SecretKeyRef | None = None
    from_address: str
    to: list[str] = Field(default_factory=list[str])
    """For the platform; an owner's address is found by their name."""
    owner_address: str = ""
    """Address of a user of whom none is known, such as ``{user}@example.com``; empty: there is none."""


class PagerDutyRoute(RouteBase):
    """PagerDuty's Events API v2: an incident is one alert there, triggered, acknowledged and resolved."""

    kind: Literal["pagerduty"] = "pagerduty"
    routing_key_ref: SecretKeyRef
    url: str = PAGERDUTY_URL


Route = Annotated[WebhookRoute | SlackRoute | EmailRoute | PagerDutyRoute, Field(discriminator="kind")]
