"""One HTTP request to a receiver, and what its answer means. No part of the address gets into an error."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Collection, Mapping
from contextlib import AsyncExitStack
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime

import httpx

from sparewheel.api.routes import RouteBase
from sparewheel.notify.port import NotifyError
from sparewheel.notify.redact import parts_of_url, redact

TIMEOUT_SECONDS = 10.0
MAX_RETRY_AFTER_SECONDS = 3600.0
MAX_ANSWER_BYTES = 2000
_TRY_AGAIN = frozenset({408, 425, 429})
"""4xx answers that a later try can turn: time-out, too early, too many."""


async def post(
    client: httpx.AsyncClient,
    route: RouteBase,
    url: str,
    body: bytes,
    headers: Mapping[str, str],
    secrets: Collection[str] = (),
) -> None:
    """Raises NotifyError on anything but a 2xx."""
    hidden = {*secrets, *parts_of_url(url)}
    sent = {"Content-Type": "application/json", "User-Agent": "sparewheel", **headers}
    try:
        async with AsyncExitStack() as stack:
            if route.ca_certificate:
                client = await stack.enter_async_context(httpx.AsyncClient(verify=trusting(route.ca_certificate)))
            async with asyncio.timeout(TIMEOUT_SECONDS):  # httpx's own is for each byte: a trickle would never end
                request = client.stream("POST", url, content=body, headers=sent, timeout=TIMEOUT_SECONDS)
                response = await stack.enter_async_context(request)
                text = "" if response.is_success else await _beginning(response)
    except (httpx.HTTPError, httpx.InvalidURL, ssl.SSLError, TimeoutError) as error:
        cause = redact(str(error), hidden) or "it took too long"
        raise NotifyError(
            f"route {route.name}: no answer ({type(error).__name__}: {cause}); check the receiver and its address"
        ) from None
    if not response.is_success:
        raise _refusal(route.name, response, redact(text, hidden))


async def _beginning(response: httpx.Response) -> str:
    found = b""
    async for piece in response.aiter_bytes():
        found += piece
        if len(found) >= MAX_ANSWER_BYTES:
            break
    return found[:MAX_ANSWER_BYTES].decode(errors="replace")


def _refusal(route: str, response: httpx.Response, text: str) -> NotifyError:
    status = response.status_code
    said = f": {text}" if text else ""
    return NotifyError(
        f"route {route}: the receiver answered HTTP {status}{said}",
        permanent=400 <= status < 500 and status not in _TRY_AGAIN,
        retry_after_seconds=retry_after(response.headers.get("Retry-After", "")),
    )


def retry_after(value: str) -> float | None:
    """Seconds, or an HTTP date (RFC 9110, 10.2.3); None when it is neither."""
    if value.isascii() and value.isdigit():
        return min(MAX_RETRY_AFTER_SECONDS, float(value[:9]))
    try:
        when = parsedate_to_datetime(value)
    except ValueError:
        return None
    when = when if when.tzinfo else when.replace(tzinfo=UTC)
    return min(MAX_RETRY_AFTER_SECONDS, max(0.0, (when - datetime.now(UTC)).total_seconds()))


def trusting(ca_certificate: str) -> ssl.SSLContext:
    """The system's authorities and this one. ssl.SSLError when it is no certificate."""
    context = ssl.create_default_context()
    if ca_certificate:
        context.load_verify_locations(cadata=ca_certificate)
    return context
