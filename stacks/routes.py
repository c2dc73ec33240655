"""Who is told of what: one route per entry. Secrets are named here and set by ``pulumi config set --secret NAME``."""

from __future__ import annotations

import re
import ssl
from typing import Annotated, Final, Literal, Self

from pydantic import AfterValidator, Field, field_validator, model_validator

from sparewheel.api.enums import Severity
from sparewheel.api.routes import (
    DEFAULT_GROUP_SECONDS,
    MAX_GROUP_SECONDS,
    PAGERDUTY_URL,
    Audience,
    EventKind,
    MailSecurity,
)
from stacks.base import Area, DnsName, SecretName
from stacks.explain import shown

_ADDRESS: Final = re.compile(r"[^\s@<>,;:\"\\]+@[A-Za-z0-9]([-A-Za-z0-9.]*[A-Za-z0-9])?")
USER: Final = "{user}"


def _address(text: str) -> str:
    if not _ADDRESS.fullmatch(text):
        msg = f"{shown(text)} is no mail address such as oncall@example.com"
        raise ValueError(msg)
    return text


MailAddress = Annotated[str, AfterValidator(_address)]


class RouteArea(Area):
    """What all routes share."""

    name: DnsName = Field(description="name of the route")
    audience: Audience = Field(
        default=Audience.PLATFORM, description="platform: those who run it; owner: the user of each job concerned"
    )
    severities: list[Severity] = Field(default_factory=list[Severity], description="only these; none: all")
    pools: list[DnsName] = Field(default_factory=list[str], description="only incidents of these pools; none: all")
    events: list[EventKind] = Field(
        default_factory=list[EventKind], description="only these; none: all, or for owners detected and job"
    )
    group_seconds: float = Field(
        default=DEFAULT_GROUP_SECONDS,
        ge=0,
        le=MAX_GROUP_SECONDS,
        description="the first message goes at once, what follows within this time is one summary; 0: each goes alone",
    )
    ca_certificate: str = Field(default="", description="PEM, trusted beside the system's authorities")

    @field_validator("ca_certificate")
    @classmethod
    def _pem(cls, text: str) -> str:
        if "PRIVATE KEY" in text:
            msg = "there is a private key in it; give the certificate alone"
            raise ValueError(msg)
        if not text:
            return text
        if "-----BEGIN CERTIFICATE-----" not in text:
            msg = "is no certificate in PEM, which begins with -----BEGIN CERTIFICATE-----"
            raise ValueError(msg)
        if not text.isascii():
            msg = "has letters that no certificate in PEM has; leave out the comments around it"
            raise ValueError(msg)
        try:
            ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT).load_verify_locations(cadata=text)
        except ssl.SSLError:
            msg = "is a certificate that is cut short or mistyped; copy the whole file"
            raise ValueError(msg) from None
        return text


class Webhook(RouteArea):
    """JSON to an address of your own."""

    kind: Literal["webhook"]
    url_secret: SecretName = Field(description="secret of the stack with the address")
    signing_secret: SecretName | None = Field(
        default=None, description="secret of the stack with the key of the signature; without it nothing is signed"
    )


class Slack(RouteArea):
    """An incoming webhook of Slack. Its address is a credential in itself."""

    kind: Literal["slack"]
    url_secret: SecretName = Field(description="secret of the stack with the address")


class Email(RouteArea):
    """Mail over SMTP."""

    kind: Literal["email"]
    host: str = Field(pattern=r"^[A-Za-z0-9]([-A-Za-z0-9.:]*[A-Za-z0-9])?$", description="name of the mail server")
    port: int = Field(default=587, ge=1, le=65535, description="587 for starttls, 465 for tls")
    security: MailSecurity = MailSecurity.STARTTLS
    username: str = Field(default="", description="user at the mail server")
    password_secret: SecretName | None = Field(default=None, description="secret of the stack with the password")
    from_address: MailAddress = Field(description="sender")
    to: list[MailAddress] = Field(default_factory=list[str], description="receivers, for the platform")
    owner_address: str = Field(
        default="", description="for owners: address of a user who has none under users, such as '{user}@example.com'"
    )

    @field_validator("owner_address")
    @classmethod
    def _pattern(cls, text: str) -> str:
        if text and (text.count(USER) != 1 or not _ADDRESS.fullmatch(text.replace(USER, "user"))):
            msg = f"{shown(text)} is no address with {USER} in it, such as '{USER}@example.com'"
            raise ValueError(msg)
        return text

    @model_validator(mode="after")
    def _fits(self) -> Self:
        owner = self.audience is Audience.OWNER
        if not owner and not self.to:
            msg = f"route {self.name} has no receiver; give addresses under to"
            raise ValueError(msg)
        if owner and self.to:
            msg = f"route {self.name} is for owners, so its receivers are found by user; leave out to"
            raise ValueError(msg)
        if not owner and self.owner_address:
            msg = f"route {self.name}: owner_address is for audience owner; set that, or leave it out"
            raise ValueError(msg)
        if bool(self.username) != (self.password_secret is not None):
            msg = f"route {self.name}: username and password_secret go together; give both or none"
            raise ValueError(msg)
        if self.password_secret and self.security is MailSecurity.NONE:
            msg = f"route {self.name}: security none would send the password in clear; set starttls or tls"
            raise ValueError(msg)
        return self


class PagerDuty(RouteArea):
    """PagerDuty's Events API v2."""

    kind: Literal["pagerduty"]
    routing_key_secret: SecretName = Field(description="secret of the stack with the integration key")
    url: str = Field(
        default=PAGERDUTY_URL, pattern=r"^https://[^\s]+$", description="an https address, for accounts in Europe"
    )

    @field_validator("audience")
    @classmethod
    def _pages_the_platform(cls, audience: Audience) -> Audience:
        if audience is Audience.OWNER:
            msg = "a pager calls those who run the platform; tell owners by email, slack or webhook"
            raise ValueError(msg)
        return audience


RouteConfig = Annotated[Webhook | Slack | Email | PagerDuty, Field(discriminator="kind")]


def secret_fields(route: RouteArea) -> dict[str, str]:
    """Setting to the name of the stack's secret that it names, for each such setting that is set."""
    settings = route.model_dump()
    return {name: value for name, value in settings.items() if name.endswith("_secret") and value is not None}


def wrong_together(routes: list[RouteArea]) -> str:
    """What is wrong with the routes as a whole; empty when nothing is."""
    names = [route.name for route in routes]
    for name in names:
        if names.count(name) > 1:
            return f"two routes are named {name}; give each its own name"
    owners = [route.name for route in routes if route.audience is Audience.OWNER]
    if owners and len(owners) == len(routes):
        return f"route {owners[0]} is for owners, and one of them may have no address; add a route for the platform"
    return ""
