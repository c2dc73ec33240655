"""Serves the cloud over HTTP on loopback: signatures checked, latency and faults as asked for."""

from __future__ import annotations

import asyncio
import hmac
import json
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any
from urllib.parse import parse_qsl, unquote

from lab.standins.crusoe.cloud import Cloud, Json
from lab.standins.crusoe.routes import Refusal, Request, Routes
from lab.standins.crusoe.trouble import Trouble
from sparewheel.crusoe.signing import TIMESTAMP_HEADER, Credentials, signature

PREFIX = "/v1"


@dataclass(slots=True)
class Server:
    cloud: Cloud
    credentials: Credentials
    trouble: Trouble = field(default_factory=Trouble)
    seen: list[str] = field(default_factory=list[str])
    """``METHOD path?query`` of every request that had a good signature."""
    port: int = 0
    down: bool = False
    """Takes no connection's request: closes it."""

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}{PREFIX}"

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while not self.down and await self._one(reader, writer):
                pass
        except (OSError, asyncio.IncompleteReadError):
            pass
        finally:
            writer.close()

    async def _one(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> bool:
        head = (await reader.readuntil(b"\r\n\r\n")).decode().split("\r\n")
        method, target, _ = head[0].split(" ")
        headers = {name.lower(): value.strip() for name, _, value in (line.partition(":") for line in head[1:])}
        raw = await reader.readexactly(int(headers.get("content-length", "0")))
        if self.down:
            return False
        if self.cloud.play.latency_seconds:
            await self.cloud.clock.sleep(self.cloud.play.latency_seconds)
        path, _, query = target.partition("?")
        line = f"{method} {path}"
        if not self._signed(headers, method, path, query):
            self._write(writer, 401, {"code": "401", "message": "bad_credential"})
            return True
        self.seen.append(f"{line}?{query}" if query else line)
        fault = self.trouble.fault_for(line)
        if fault is not None and not fault.carried_out:
            if fault.cut:
                return False
            self._write(writer, fault.status, _error(fault.status, fault.message), fault.retry_after)
            return True
        status, body = self._answer(method, path, query, raw)
        self.trouble.others_act(line)
        if fault is not None and fault.cut:
            return False
        if fault is not None:
            status, body = fault.status, _error(fault.status, fault.message)
        self._write(writer, status, body)
        await writer.drain()
        return True

    def _answer(self, method: str, path: str, query: str, raw: bytes) -> tuple[int, Json]:
        try:
            body: Any = json.loads(raw or b"{}")
        except ValueError:
            return 400, _error(400, "bad_request")
        if not path.startswith(f"{PREFIX}/"):
            return 404, _error(404, "not_found")
        pairs = dict(parse_qsl(query, keep_blank_values=True))
        try:
            request = Request(method, unquote(path).removeprefix(PREFIX), pairs, body)
            return 200, Routes(self.cloud).answer(request)
        except Refusal as error:
            return error.status, _error(error.status, str(error))

    def _signed(self, headers: dict[str, str], method: str, path: str, query: str) -> bool:
        timestamp = headers.get(TIMESTAMP_HEADER.lower(), "")
        try:
            sent = datetime.fromisoformat(timestamp)
            off = abs((self.cloud.clock.now() - sent).total_seconds())
            expected = signature(self.credentials, method, path, query, timestamp)
        except (ValueError, TypeError):
            return False
        wanted = f"Bearer 1.0:{self.credentials.access_key_id}:{expected}"
        good = hmac.compare_digest(wanted, headers.get("authorization", ""))
        return good and off <= self.cloud.play.clock_window_seconds

    def _write(self, writer: asyncio.StreamWriter, status: int, body: Json, retry_after: str = "") -> None:
        raw = json.dumps(body).encode()
        extra = f"Retry-After: {retry_after}\r\n" if retry_after else ""
        head = (
            f"HTTP/1.1 {status} Played\r\nContent-Type: application/json\r\nContent-Length: {len(raw)}\r\n{extra}\r\n"
        )
        writer.write(head.encode() + raw)


def _error(status: int, message: str) -> Json:
    return {"code": str(status), "message": message}


@asynccontextmanager
async def serving(cloud: Cloud, credentials: Credentials, port: int = 0) -> AsyncGenerator[Server, None]:
    """On loopback until the block ends."""
    server = Server(cloud, credentials)
    listening = await asyncio.start_server(server.serve, "127.0.0.1", port)
    server.port = listening.sockets[0].getsockname()[1]
    try:
        yield server
    finally:
        listening.close()
