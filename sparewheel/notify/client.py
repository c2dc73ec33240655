"""Delivers messages over HTTP. One try a call: the outbox in the record decides when to try again."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping

import httpx

from sparewheel.api.remediation_policy import Route
from sparewheel.notify.formats import body
from sparewheel.notify.port import Event, NotifyError

TIMEOUT_SECONDS = 10.0
IDEMPOTENCY_HEADER = "Idempotency-Key"
"""IETF draft-ietf-httpapi-idempotency-key-header."""

UrlOf = Callable[[Route], Awaitable[str]]


class HttpNotifier:
    """Sends to the routes of the policy. ``routes`` is asked at each call, so a changed policy holds at once.

    The address of a route is a secret and stands in no error, log or record.
    """

    def __init__(self, routes: Callable[[], Mapping[str, Route]], url_of: UrlOf, client: httpx.AsyncClient) -> None:
        self._routes = routes
        self._url_of = url_of
        self._client = client

    async def send(self, route_name: str, event: Event, key: str) -> None:
        """Deliver once. Raises NotifyError on anything but a 2xx; sending again with the same key is safe."""
        route = self._routes().get(route_name)
        if route is None:
            raise NotifyError(f"route {route_name}: not in the policy any more; add it again or let the message lapse")
        try:
            url = await self._url_of(route)
        except Exception as error:
            raise NotifyError(
                f"route {route_name}: its address cannot be read from secret {route.url_ref.name} "
                f"({type(error).__name__}); check that the secret has key {route.url_ref.key}"
            ) from error
        headers = {IDEMPOTENCY_HEADER: key, "User-Agent": "sparewheel"}
        try:
            async with asyncio.timeout(TIMEOUT_SECONDS):  # httpx's own is for each byte: a trickle would never end
                response = await self._client.post(
                    url, json=body(route.format, event), headers=headers, timeout=TIMEOUT_SECONDS
                )
        except (httpx.HTTPError, httpx.InvalidURL, TimeoutError) as error:
            raise NotifyError(
                f"route {route_name}: no answer ({type(error).__name__}); check the receiver and its address"
            ) from None
        if not response.is_success:
            raise NotifyError(f"route {route_name}: the receiver answered HTTP {response.status_code}")
