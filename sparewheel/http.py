"""How our long-running HTTP clients reach their server: httpx's interface over aiohttp's connections."""

from __future__ import annotations

import ssl

import httpx


def connections(tls: ssl.SSLContext | bool, most: int) -> httpx.AsyncBaseTransport:
    """At most so many connections to one server. httpx's own cost six times the processor for each request.

    No proxy from the environment stands between the controller and its cluster. aiohttp sends a request that is safe to
    repeat (GET, PUT, DELETE) once more where a kept connection turns out to be closed: our PUTs are compare-and-swap,
    so the second one of two is refused.
    """
    from httpx_aiohttp import AiohttpTransport

    return AiohttpTransport(verify=tls, limits=httpx.Limits(max_connections=most), trust_env=False)
