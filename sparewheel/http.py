"""How the client of the API server reaches it: httpx's interface over aiohttp's connections."""

from __future__ import annotations

import asyncio.sslproto
import ssl
from functools import cache
from typing import TYPE_CHECKING, Final, cast

import httpx

if TYPE_CHECKING:
    from httpx_aiohttp import AiohttpTransport

TLS_BUFFER_BYTES: Final = 64 * 1024
"""asyncio holds one for each connection, of 256 KB by itself, and OpenSSL as much again: in a storm there are fifty."""


def connections(tls: ssl.SSLContext | bool, most: int) -> httpx.AsyncBaseTransport:
    """At most so many connections to one server; each request costs less than over httpx's own (docs/measured.md).

    No proxy from the environment stands between the controller and its cluster. aiohttp sends a request that HTTP takes
    for safe to repeat (GET, PUT, DELETE) once more where the connection broke before an answer came: our PUTs are
    compare-and-swap, so the second one of two is refused.
    """
    return _transport()(verify=tls, limits=httpx.Limits(max_connections=most), trust_env=False)


@cache
def _transport() -> type[AiohttpTransport]:
    """Imported where connections are needed. An answer that is no HTTP becomes one of httpx's errors too."""
    import aiohttp
    from httpx_aiohttp import AiohttpTransport
    from httpx_aiohttp.transport import AIOHTTP_EXC_MAP

    asyncio.sslproto.SSLProtocol.max_size = TLS_BUFFER_BYTES
    errors = cast("dict[type[Exception], type[httpx.HTTPError]]", AIOHTTP_EXC_MAP)
    errors.setdefault(aiohttp.ClientError, httpx.TransportError)
    return AiohttpTransport
