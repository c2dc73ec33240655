"""Delivers messages over the policy's routes. One try a call: the outbox in the record decides when to try again."""

from __future__ import annotations

import json
import logging
from collections.abc import Awaitable, Callable
from datetime import datetime
from typing import Any

import httpx

from sparewheel.api.gpu_pool import SecretKeyRef
from sparewheel.api.remediation_policy import RemediationPolicySpec
from sparewheel.api.routes import (
    Audience,
    EmailRoute,
    PagerDutyRoute,
    Route,
    RouteBase,
    SlackRoute,
    WebhookRoute,
)
from sparewheel.notify import formats, mail, pagerduty, signing, web
from sparewheel.notify.port import Event, NotifyError
from sparewheel.remediation.decide import routing

log = logging.getLogger("sparewheel.notify")

IDEMPOTENCY_HEADER = "Idempotency-Key"
"""IETF draft-ietf-httpapi-idempotency-key-header."""

SecretOf = Callable[[SecretKeyRef], Awaitable[str]]


class RouteNotifier:
    """Sends to the routes of the policy. ``policy`` is asked at each call, so a changed policy holds at once.

    Addresses, keys and passwords are secrets and stand in no error, log or record.
    """

    def __init__(
        self,
        policy: Callable[[], RemediationPolicySpec],
        secret_of: SecretOf,
        client: httpx.AsyncClient,
        now: Callable[[], datetime],
    ) -> None:
        self._policy = policy
        self._secret_of = secret_of
        self._client = client
        self._now = now

    async def send(self, route_name: str, event: Event, key: str) -> None:
        """Deliver once. Raises NotifyError unless it was accepted; sending again with the same key is safe."""
        route = routing.find(self._policy().routes, route_name)
        match route:
            case None:
                text = "not in the policy any more; add it again or let the message lapse"
                raise NotifyError(f"route {route_name}: {text}")
            case WebhookRoute():
                await self._webhook(route, event, key)
            case SlackRoute():
                body = _json(formats.slack(event, self._owner(route, event)))
                await self._post(route, await self._secret(route, route.url_ref), body, {IDEMPOTENCY_HEADER: key})
            case EmailRoute():
                await self._mail(route, event, key)
            case PagerDutyRoute():
                await self._pagerduty(route, event)

    def _owner(self, route: Route, event: Event) -> str:
        """Where the owner is reached on this route; empty when the message is for the platform."""
        if route.audience is not Audience.OWNER:
            return ""
        found = routing.address(route, self._policy().people, str(event.get("owner", "")))
        if not found:
            text = f"user {event.get('owner')} has no address any more; give one under users, or owner_address"
            raise NotifyError(f"route {route.name}: {text}")
        return found

    async def _secret(self, route: RouteBase, ref: SecretKeyRef) -> str:
        try:
            return await self._secret_of(ref)
        except Exception as error:
            raise NotifyError(
                f"route {route.name}: what it needs cannot be read from secret {ref.name} "
                f"({type(error).__name__}); check that the secret has key {ref.key}"
            ) from error

    async def _post(self, route: RouteBase, url: str, body: bytes, headers: dict[str, str], *secrets: str) -> None:
        await web.post(self._client, route, url, body, headers, secrets)

    async def _webhook(self, route: WebhookRoute, event: Event, key: str) -> None:
        url, body = await self._secret(route, route.url_ref), _json(event)
        headers = {IDEMPOTENCY_HEADER: key}
        if route.signing_ref is not None:
            signing_key = await self._secret(route, route.signing_ref)
            headers |= signing.headers(signing_key, self._now().timestamp(), body)
        await self._post(route, url, body, headers)

    async def _pagerduty(self, route: PagerDutyRoute, event: Event) -> None:
        routing_key = await self._secret(route, route.routing_key_ref)
        for body in pagerduty.bodies(event, routing_key):
            await self._post(route, route.url, _json(body), {}, routing_key)

    async def _mail(self, route: EmailRoute, event: Event, key: str) -> None:
        owner = self._owner(route, event)
        password = "" if route.password_ref is None else await self._secret(route, route.password_ref)
        message = formats.mail(event, key, route.from_address, [owner] if owner else route.to, self._now())
        refused = await mail.send(route, message, password)
        if refused:
            log.warning("event=mail_refused route=%s key=%s addresses=%s", route.name, key, ",".join(refused))


def _json(body: dict[str, Any]) -> bytes:
    return json.dumps(body, ensure_ascii=False, separators=(",", ":")).encode()
