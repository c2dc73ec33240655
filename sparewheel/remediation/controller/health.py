"""``/healthz`` for probes and people: 200 while the watches have synced and none fails, else 503; ``/metrics``."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager

from sparewheel.remediation.controller.loop import Controller
from sparewheel.remediation.controller.metrics import render
from sparewheel.remediation.decide.spare_need import need_of_pool

REQUEST_SECONDS = 5.0
METRICS_TYPE = "text/plain; version=0.0.4; charset=utf-8"


def health(controller: Controller) -> tuple[int, dict[str, object]]:
    """Status code and body."""
    unsynced = [i.resource.plural for i in controller.watches.informers if not i.synced.is_set()]
    troubles = controller.watches.troubles()
    body: dict[str, object] = {
        "leading": controller.leading(),
        "incidents": len(controller.state.taken),
        "unsynced": unsynced,
        "troubles": troubles,
    }
    return (503 if unsynced or troubles else 200), body


def metrics(controller: Controller) -> str:
    """What the caches say now; a standby's are warm too."""
    state, now = controller.state, controller.clock.now()
    records, hosts = state.newest_records(), list(state.hosts.values())
    needs = [need_of_pool(pool, hosts, records, now) for _, pool in sorted(state.pools.items())]
    return render(needs, hosts, records, leading=controller.leading())


def _answer(controller: Controller, request: bytes) -> tuple[int, str, bytes]:
    path = [*request.split(), b"", b""][1].partition(b"?")[0]
    if path == b"/metrics":
        return 200, METRICS_TYPE, metrics(controller).encode()
    code, body = health(controller) if path == b"/healthz" else (404, {"error": "only /healthz and /metrics are here"})
    return code, "application/json", json.dumps(body).encode()


@asynccontextmanager
async def serve_health(port: int, controller: Controller) -> AsyncGenerator[None, None]:
    """Serve on all addresses until the block ends."""

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            async with asyncio.timeout(REQUEST_SECONDS):
                request = await reader.readline()
            code, kind, text = _answer(controller, request)
            head = f"HTTP/1.1 {code} -\r\nContent-Type: {kind}\r\nContent-Length: {len(text)}\r\n"
            writer.write(f"{head}Connection: close\r\n\r\n".encode() + text)
            await writer.drain()
        except (OSError, TimeoutError):
            pass
        finally:
            writer.close()

    server = await asyncio.start_server(answer, host=None, port=port)
    try:
        yield
    finally:
        server.close()
        await server.wait_closed()
