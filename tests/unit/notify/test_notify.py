"""Messages against a real HTTP receiver on loopback: good, slow-witted and gone; and no address in any error."""

from __future__ import annotations

import asyncio
import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import httpx
import pytest

from sparewheel.api.gpu_pool import SecretKeyRef
from sparewheel.api.remediation_policy import Route, RouteFormat
from sparewheel.notify.client import HttpNotifier
from sparewheel.notify.formats import MAX_SLACK_TEXT_CHARACTERS, body
from sparewheel.notify.port import NotifyError

SECRET_PATH = "/services/" + "T0" + "token"
EVENT: dict[str, Any] = {
    "event": "incident.detected",
    "title": "XID 79 on gpu-1 <a>",
    "text": "The job is requeued.",
    "remediation": "gpu-1-x",
    "jobs": [{"jobId": 7, "user": "alice", "name": "train", "what": "it is requeued", "actionNeeded": False}],
}


class Receiver(ThreadingHTTPServer):
    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.status = 200
        self.got: list[tuple[str, str, dict[str, Any]]] = []

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_port}{SECRET_PATH}"


class Handler(BaseHTTPRequestHandler):
    server: Receiver  # pyright: ignore[reportIncompatibleVariableOverride]

    def do_POST(self) -> None:
        data = self.rfile.read(int(self.headers["Content-Length"]))
        self.server.got.append((self.path, self.headers["Idempotency-Key"], json.loads(data)))
        self.send_response(self.server.status)
        self.end_headers()

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 (the base class names it so)
        """Keep the test's output clean."""


@pytest.fixture
def receiver() -> Iterator[Receiver]:
    server = Receiver()
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    yield server
    server.shutdown()
    thread.join()
    server.server_close()


def notifier(url: str, client: httpx.AsyncClient, route_format: RouteFormat = RouteFormat.WEBHOOK) -> HttpNotifier:
    route = Route(name="team", format=route_format, url_ref=SecretKeyRef(name="routes", key="team"))

    async def url_of(_: Route) -> str:
        return url

    return HttpNotifier(lambda: {"team": route}, url_of, client)


async def test_a_webhook_gets_the_event_as_it_is_with_the_key(receiver: Receiver) -> None:
    async with httpx.AsyncClient() as client:
        await notifier(receiver.url, client).send("team", EVENT, "key-1")
    assert receiver.got == [(SECRET_PATH, "key-1", EVENT)]


async def test_slack_gets_text_it_accepts(receiver: Receiver) -> None:
    async with httpx.AsyncClient() as client:
        await notifier(receiver.url, client, RouteFormat.SLACK).send("team", EVENT, "key-1")
    text = receiver.got[0][2]["blocks"][0]["text"]["text"]
    assert "XID 79 on gpu-1 &lt;a&gt;" in text
    assert "job 7 of alice: it is requeued" in text


def test_slack_text_is_never_too_long() -> None:
    event = {**EVENT, "jobs": EVENT["jobs"] * 500, "text": "x" * 5000}
    assert len(body(RouteFormat.SLACK, event)["blocks"][0]["text"]["text"]) <= MAX_SLACK_TEXT_CHARACTERS


@pytest.mark.parametrize("status", [302, 400, 404, 500, 503])
async def test_a_refusal_is_an_error_without_the_address(receiver: Receiver, status: int) -> None:
    receiver.status = status
    async with httpx.AsyncClient() as client:
        with pytest.raises(NotifyError, match=f"team.*{status}") as error:
            await notifier(receiver.url, client).send("team", EVENT, "k")
    assert "token" not in str(error.value)


@pytest.mark.parametrize("url", ["http://127.0.0.1:1" + SECRET_PATH, "nonsense", "http://[" + SECRET_PATH])
async def test_no_answer_is_an_error_without_the_address(url: str) -> None:
    async with httpx.AsyncClient() as client:
        with pytest.raises(NotifyError) as error:
            await notifier(url, client).send("team", EVENT, "k")
    assert "token" not in str(error.value)
    assert error.value.__cause__ is None


async def test_a_route_that_is_gone_and_a_secret_that_is_missing() -> None:
    async with httpx.AsyncClient() as client:
        with pytest.raises(NotifyError, match="not in the policy"):
            await notifier("http://x", client).send("other", EVENT, "k")

        async def no_secret(_: Route) -> str:
            raise KeyError("team")

        route = Route(name="team", url_ref=SecretKeyRef(name="routes", key="team"))
        with pytest.raises(NotifyError, match="secret routes"):
            await HttpNotifier(lambda: {"team": route}, no_secret, client).send("team", EVENT, "k")


async def test_an_answer_that_trickles_for_ever_is_no_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sparewheel.notify.client.TIMEOUT_SECONDS", 0.5)
    ended = asyncio.Event()

    async def trickle(_reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(b"HTTP/1.1 200 OK\r\n")
        try:
            while not ended.is_set():
                writer.write(b"X-More: 1\r\n")
                await writer.drain()
                await asyncio.sleep(0.1)
        except OSError:
            pass
        finally:
            writer.close()

    server = await asyncio.start_server(trickle, "127.0.0.1", 0)
    async with server, httpx.AsyncClient() as client:
        port = server.sockets[0].getsockname()[1]
        with pytest.raises(NotifyError, match="no answer"):
            await notifier(f"http://127.0.0.1:{port}/", client).send("team", EVENT, "k")
        ended.set()
