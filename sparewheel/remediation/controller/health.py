"""``/healthz`` for probes and people: 200 while the watches have synced and none fails, else 503 and why."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager

from sparewheel.remediation.controller.loop import Controller

REQUEST_SECONDS = 5.0


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


@asynccontextmanager
async def serve_health(port: int, controller: Controller) -> AsyncGenerator[None, None]:
    """Serve on all addresses until the block ends."""

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            async with asyncio.timeout(REQUEST_SECONDS):
                request = await reader.readline()
            code, body = health(controller) if b"/healthz" in request else (404, {"error": "only /healthz is here"})
            text = json.dumps(body).encode()
            head = f"HTTP/1.1 {code} -\r\nContent-Type: application/json\r\nContent-Length: {len(text)}\r\n"
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
