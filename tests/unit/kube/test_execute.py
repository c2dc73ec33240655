"""A command in a pod over a WebSocket, against a server that answers in pieces of any size."""

from __future__ import annotations

import asyncio
import base64
import hashlib
import json
from collections.abc import Awaitable, Callable
from urllib.parse import parse_qsl, urlsplit

import pytest

from sparewheel.kube.access import Access, TokenAuth
from sparewheel.kube.execute import PROTOCOL, Executed, execute
from sparewheel.kube.port import InvalidError, KubeError, NotFoundError, UnavailableError

SUCCESS = json.dumps({"status": "Success"}).encode()
FAILED = json.dumps(
    {
        "status": "Failure",
        "message": "command terminated with exit code 3",
        "details": {"causes": [{"reason": "ExitCode", "message": "3"}]},
    }
).encode()
CANNOT = json.dumps({"status": "Failure", "message": "no such container"}).encode()
Serve = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]


def frame(channel: int, body: bytes, *, kind: int = 2, last: bool = True) -> bytes:
    whole = (bytes([channel]) if kind == 2 else b"") + body
    head = bytes([(0x80 if last else 0) | kind])
    if len(whole) < 126:
        return head + bytes([len(whole)]) + whole
    wide = 2 if len(whole) < 1 << 16 else 8
    return head + bytes([126 if wide == 2 else 127]) + len(whole).to_bytes(wide, "big") + whole


class Server:
    """One connection: keeps the request, switches protocols and then sends ``answer``."""

    def __init__(
        self, answer: bytes, *, key: str | None = None, protocol: str = PROTOCOL, instead: bytes = b""
    ) -> None:
        self.answer, self.key, self.protocol, self.instead = answer, key, protocol, instead
        self.path = ""
        self.headers: dict[str, str] = {}
        self.heard = b""
        self.served = asyncio.Event()

    async def __call__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            await self._serve(reader, writer)
        except ConnectionError:
            pass  # who asked has left
        finally:
            writer.close()
            self.served.set()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        lines = (await reader.readuntil(b"\r\n\r\n")).decode().split("\r\n")
        self.path = lines[0].split()[1]
        self.headers = dict(line.lower().split(": ", 1) for line in lines[1:] if line)
        raw = {line.split(": ")[0].lower(): line.split(": ")[1] for line in lines[1:] if line}
        if self.instead:
            writer.write(self.instead)
        else:
            key = self.key or raw["sec-websocket-key"]
            digest = hashlib.sha1(
                key.encode() + b"258EAFA5-E914-47DA-95CA-C5AB0DC85B11", usedforsecurity=False
            ).digest()
            writer.write(
                b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
                + f"Sec-WebSocket-Accept: {base64.b64encode(digest).decode()}\r\n".encode()
                + f"Sec-WebSocket-Protocol: {self.protocol}\r\n\r\n".encode()
            )
            size = 1 if len(self.answer) < 500 else 997
            for start in range(0, len(self.answer), size):
                writer.write(self.answer[start : start + size])
                await asyncio.sleep(0)
        await writer.drain()
        if writer.can_write_eof() and (self.instead or self.answer):
            writer.write_eof()
        self.heard = await reader.read()


async def run(server: Server, *command: str, seconds: float = 5.0) -> Executed:
    listening = await asyncio.start_server(server, "127.0.0.1", 0)
    async with listening:
        host, port = listening.sockets[0].getsockname()
        access = Access(f"http://{host}:{port}/prefix", True, TokenAuth("secret"))
        try:
            return await execute(access, "sparewheel", "agent-x", command or ("true",), seconds, "agent")
        finally:
            await asyncio.wait_for(server.served.wait(), 30)


async def test_what_the_command_prints_and_how_it_ends() -> None:
    server = Server(
        frame(1, b"") + frame(1, b"XID 79 ") + frame(2, b"warned") + frame(1, b"written") + frame(3, SUCCESS)
    )
    assert await run(server, "python3", "-m", "a b", "ä&c=d") == Executed("XID 79 written", "warned", 0)
    url = urlsplit(server.path)
    assert url.path == "/prefix/api/v1/namespaces/sparewheel/pods/agent-x/exec"
    asked = parse_qsl(url.query)
    assert [value for name, value in asked if name == "command"] == ["python3", "-m", "a b", "ä&c=d"]
    assert {"stdout": "true", "stderr": "true", "container": "agent"}.items() <= dict(asked).items()
    assert server.headers["authorization"] == "bearer secret"


@pytest.mark.parametrize(
    ("status", "code", "message"),
    [(FAILED, 3, "command terminated with exit code 3"), (CANNOT, None, "no such container"), (b"{", None, "{")],
)
async def test_a_command_that_failed(status: bytes, code: int | None, message: str) -> None:
    assert await run(Server(frame(2, b"oh") + frame(3, status))) == Executed("", "oh", code, message)


async def test_frames_of_every_length_in_pieces_and_a_ping_between() -> None:
    long, longer = b"x" * 300, b"y" * 70_000
    parts = frame(1, long, last=False) + frame(0, b"", kind=9) + frame(0, b"end", kind=0) + frame(1, longer)
    server = Server(parts + frame(3, SUCCESS))
    done = await run(server)
    assert done.out == (long + b"end" + longer).decode()
    assert server.heard[0] == 0x8A, "the ping was answered"
    assert server.heard[1] & 0x80, "a client's frame is masked"


@pytest.mark.parametrize(
    ("status", "error"),
    [
        ({"code": 404, "reason": "NotFound", "details": {"name": "agent-x"}, "message": "no pod"}, NotFoundError),
        ({"code": 403, "reason": "Forbidden", "message": "pods/exec is forbidden"}, InvalidError),
        ({"code": 500, "message": "container not found"}, UnavailableError),
    ],
)
async def test_a_refusal_is_the_servers_own_word(status: dict[str, object], error: type[KubeError]) -> None:
    body = json.dumps({"kind": "Status", **status}).encode()
    head = f"HTTP/1.1 {status['code']} No\r\nContent-Length: {len(body)}\r\n\r\n".encode()
    with pytest.raises(error, match=str(status["message"])):
        await run(Server(b"", instead=head + body))


@pytest.mark.parametrize(
    ("server", "says"),
    [
        (Server(frame(1, b"half")), "connection broke"),
        (Server(frame(1, b"half") + frame(0, b"", kind=8)), "ended before the command did"),
        (Server(b"x", key="another"), "is it the API server"),
        (Server(b"x", protocol="chat"), "is it the API server"),
        (Server(b"\x82\xff" + b"0" * 12), "a frame that no server sends"),
    ],
)
async def test_what_is_not_known_to_have_ended_is_no_success(server: Server, says: str) -> None:
    with pytest.raises(UnavailableError, match=says):
        await run(server)


async def test_one_that_does_not_end_is_given_up() -> None:
    with pytest.raises(UnavailableError, match=r"no end within 0.2 s"):
        await run(Server(b""), seconds=0.2)


async def test_nobody_listens() -> None:
    with pytest.raises(UnavailableError, match="the connection broke"):
        await execute(Access("http://127.0.0.1:1", True), "n", "p", ("true",), 5)
