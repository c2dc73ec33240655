"""Runs a command inside a pod, as ``kubectl exec`` does: a WebSocket with the protocol ``v4.channel.k8s.io``."""

from __future__ import annotations

import asyncio
import base64
import hashlib
import os
import ssl
import struct
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass
from typing import Any, Final, cast

import httpx
import msgspec

from sparewheel.kube.access import Access
from sparewheel.kube.answers import Request, error_from_status
from sparewheel.kube.client import path_of
from sparewheel.kube.port import POD, UnavailableError

PROTOCOL: Final = "v4.channel.k8s.io"
_ACCEPT: Final = b"258EAFA5-E914-47DA-95CA-C5AB0DC85B11"
"""RFC 6455, 1.3: proves that the other side speaks WebSocket."""
_CONTINUATION, _CLOSE, _PING, _PONG = 0x0, 0x8, 0x9, 0xA
_OUT, _ERR, _STATUS = 1, 2, 3
"""Channels: the first byte of each message."""
MAX_BYTES: Final = 1 << 20
"""Of what the command prints; more is an error, not a growing process."""


@dataclass(frozen=True, slots=True)
class Executed:
    """What the command printed, and how it ended: 0 is success, None that it could not be run."""

    out: str
    err: str
    code: int | None
    message: str = ""


async def execute(
    access: Access, namespace: str, pod: str, command: Sequence[str], seconds: float, container: str = ""
) -> Executed:
    """Raises KubeError when the API server refuses, or it isn't known how the command ended."""
    asked = Request("get", POD, pod, namespace, "exec")
    try:
        async with asyncio.timeout(seconds):
            return await _execute(access, asked, command, container)
    except TimeoutError:
        raise UnavailableError(f"{asked}: no end within {seconds:g} s; is the pod's node up?") from None
    except (OSError, asyncio.IncompleteReadError, asyncio.LimitOverrunError) as error:
        raise UnavailableError(f"{asked}: the connection broke ({error or type(error).__name__})") from error


async def _execute(access: Access, asked: Request, command: Sequence[str], container: str) -> Executed:
    query = [("stdout", "true"), ("stderr", "true"), *(("command", word) for word in command)]
    query += [("container", container)] if container else []
    url = httpx.URL(access.server, params=httpx.QueryParams(tuple(query)))
    url = url.copy_with(
        path=httpx.URL(access.server).path.rstrip("/") + path_of(POD, asked.namespace, asked.name, "exec")
    )
    key = base64.b64encode(os.urandom(16)).decode()
    request = await _signed(access, httpx.Request("GET", url, headers=_upgrade(key)))
    tls = access.tls if isinstance(access.tls, ssl.SSLContext) else None
    reader, writer = await asyncio.open_connection(url.host, url.port or (443 if tls else 80), ssl=tls)
    try:
        lines = [f"GET {request.url.raw_path.decode('ascii')} HTTP/1.1"]
        lines += [f"{name}: {value}" for name, value in request.headers.items()]
        writer.write("\r\n".join([*lines, "", ""]).encode("ascii"))
        await _switched(reader, asked, key)
        return await _read(reader, writer, asked)
    finally:
        writer.close()


def _upgrade(key: str) -> dict[str, str]:
    return {
        "Connection": "Upgrade",
        "Upgrade": "websocket",
        "Sec-WebSocket-Version": "13",
        "Sec-WebSocket-Key": key,
        "Sec-WebSocket-Protocol": PROTOCOL,
    }


async def _signed(access: Access, request: httpx.Request) -> httpx.Request:
    if access.auth is None:
        return request
    flow = access.auth.async_auth_flow(request)
    try:
        return await anext(flow)
    finally:
        await flow.aclose()


async def _switched(reader: asyncio.StreamReader, asked: Request, key: str) -> None:
    head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1").split("\r\n")
    headers = {name.strip().lower(): value.strip() for name, _, value in (line.partition(":") for line in head[1:])}
    code = int(head[0].split()[1]) if len(head[0].split()) > 1 and head[0].split()[1].isdigit() else 0
    if code != 101:
        length = headers.get("content-length", "0")
        body = await reader.readexactly(min(int(length), MAX_BYTES)) if length.isdigit() else b""
        raise error_from_status(asked, httpx.Response(code or 502, content=body))
    wanted = base64.b64encode(hashlib.sha1(key.encode() + _ACCEPT, usedforsecurity=False).digest()).decode()
    if headers.get("sec-websocket-accept") != wanted or headers.get("sec-websocket-protocol") != PROTOCOL:
        raise UnavailableError(f"{asked}: what answers speaks no {PROTOCOL}; is it the API server?")


async def _read(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, asked: Request) -> Executed:
    printed: dict[int, bytearray] = {_OUT: bytearray(), _ERR: bytearray()}
    async for channel, part in _messages(reader, writer):
        if channel == _STATUS:
            code, message = _ended(part)
            out, err = (printed[one].decode("utf-8", "replace") for one in (_OUT, _ERR))
            return Executed(out, err, code, message)
        if channel in printed:
            printed[channel] += part
        if sum(map(len, printed.values())) > MAX_BYTES:
            raise UnavailableError(f"{asked}: the command printed more than {MAX_BYTES} bytes")
    raise UnavailableError(f"{asked}: the connection ended before the command did")


async def _messages(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> AsyncIterator[tuple[int, bytes]]:
    """Channel and content of each message; a ping is answered, a close ends it."""
    whole = b""
    while True:
        first, second = await reader.readexactly(2)
        length = second & 0x7F
        if length >= 126:
            wide = 2 if length == 126 else 8
            length = int.from_bytes(await reader.readexactly(wide), "big")
        if second & 0x80 or length > MAX_BYTES:
            raise OSError("a frame that no server sends")
        body, kind = await reader.readexactly(length), first & 0x0F
        if kind == _CLOSE:
            return
        if kind == _PING:
            writer.write(_frame(_PONG, body))
        elif kind != _PONG:
            whole = whole + body if kind == _CONTINUATION else body
            if first & 0x80 and whole:
                yield whole[0], whole[1:]


def _frame(kind: int, body: bytes) -> bytes:
    """A client's frame is masked. Only control frames are sent, which have at most 125 bytes."""
    mask = os.urandom(4)
    masked = bytes(byte ^ mask[index % 4] for index, byte in enumerate(body))
    return struct.pack("!BB", 0x80 | kind, 0x80 | len(body)) + mask + masked


def _ended(body: bytes) -> tuple[int | None, str]:
    """The exit code from the Status on the last channel; None where the command could not be run."""
    try:
        status = cast("dict[str, Any]", msgspec.json.decode(body))
    except msgspec.DecodeError:
        return None, body.decode("utf-8", "replace")
    if status.get("status") == "Success":
        return 0, ""
    details = cast("dict[str, Any]", status.get("details") or {})
    causes = cast("list[dict[str, str]]", details.get("causes") or [])
    codes = [cause.get("message", "") for cause in causes if cause.get("reason") == "ExitCode"]
    return (int(codes[0]) if codes and codes[0].isdigit() else None), str(status.get("message", ""))
