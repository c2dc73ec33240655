"""The connections of our clients against a server that breaks HTTP: an error that they know, and no request twice."""

from __future__ import annotations

import asyncio
import ssl
from asyncio import sslproto
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

import pytest

from sparewheel.http import TLS_BUFFER_BYTES, connections
from sparewheel.kube.access import Access
from sparewheel.kube.client import KubeClient
from sparewheel.kube.port import NODE, UnavailableError
from sparewheel.slurm.client import SlurmClient
from sparewheel.slurm.port import SlurmUnavailableError


class Token:
    async def token(self, *, fresh: bool = False) -> str:
        del fresh
        return "CANARY"


@dataclass(slots=True)
class Broken:
    """Answers each request with these bytes, then closes the connection."""

    answer: bytes
    asked: list[str] = field(default_factory=list[str])
    url: str = ""

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        request = (await reader.readline()).decode()
        while (await reader.readline()).strip():
            pass
        self.asked.append(request)
        writer.write(self.answer)
        await writer.drain()
        writer.close()


@asynccontextmanager
async def broken(answer: bytes) -> AsyncGenerator[Broken, None]:
    server = Broken(answer)
    listening = await asyncio.start_server(server.serve, "127.0.0.1", 0)
    async with listening:
        server.url = f"http://127.0.0.1:{listening.sockets[0].getsockname()[1]}"
        yield server


HALF = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 500\r\n\r\n{"
ANSWERS = [b"what is this\r\n\r\n", b"HTTP/1.1 200 OK\r\nContent-Length: many\r\n\r\n", HALF, b""]


@pytest.mark.parametrize("answer", ANSWERS)
async def test_an_answer_that_is_none_is_an_unavailable_server(answer: bytes) -> None:
    async with broken(answer) as server:
        async with KubeClient(Access(server.url, True), read_attempts=1) as kube:
            with pytest.raises(UnavailableError):
                await kube.get(NODE, "gpu-1")
            with pytest.raises(UnavailableError):
                [event async for event in kube.watch(NODE, "1")]
            with pytest.raises(UnavailableError):
                await kube.create(NODE, {"metadata": {"name": "gpu-1"}})
        async with SlurmClient(server.url, Token()) as slurm:
            with pytest.raises(SlurmUnavailableError):
                await slurm.jobs()


async def test_a_requeue_whose_answer_is_lost_is_not_sent_again() -> None:
    """It is a GET, which HTTP takes for safe to repeat; it ends whatever runs."""
    async with broken(b"") as server, SlurmClient(server.url, Token()) as slurm:
        with pytest.raises(SlurmUnavailableError):
            await slurm.requeue(27)
        assert len(server.asked) == 1


async def test_a_tls_connection_has_a_small_buffer() -> None:
    tls, loop = ssl.create_default_context(), asyncio.get_running_loop()
    await connections(tls, 1).aclose()
    protocol = sslproto.SSLProtocol(loop, asyncio.Protocol(), tls, loop.create_future())
    assert len(protocol.get_buffer(-1)) == TLS_BUFFER_BYTES
