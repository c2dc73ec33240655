"""The client's reading of answers that a healthy API server seldom gives."""

from __future__ import annotations

import asyncio
import json
import os
from collections.abc import AsyncGenerator, Callable
from pathlib import Path
from typing import Any

import httpx
import pytest

from sparewheel.kube.access import Access, AccessError, ExecAuth, TokenFileAuth, from_text
from sparewheel.kube.client import LONG_LISTS, KubeClient
from sparewheel.kube.pace import URGENCY, Pace, Urgency
from sparewheel.kube.port import (
    LEASE,
    NODE,
    POD,
    ConflictError,
    GoneError,
    InvalidError,
    KubeError,
    NotFoundError,
    TooManyRequestsError,
    UnavailableError,
)
from tests.support.clocks import StillClock

Handler = Callable[[httpx.Request], httpx.Response]


def client_of(handler: Handler, auth: httpx.Auth | None = None) -> KubeClient:
    access = Access("http://api.test", True, auth)
    return KubeClient(access, read_attempts=1, transport=httpx.MockTransport(handler))


def status(code: int, reason: str, message: str = "", **details: Any) -> httpx.Response:
    body = {"kind": "Status", "code": code, "reason": reason, "message": message, "details": details}
    return httpx.Response(code, json=body)


@pytest.mark.parametrize(
    ("answer", "error"),
    [
        (status(404, "NotFound", name="n", kind="nodes"), NotFoundError),
        (status(404, "NotFound", name="other", kind="nodes"), UnavailableError),
        (httpx.Response(404, text="404 page not found"), UnavailableError),
        (httpx.Response(404, text="<html>nginx</html>"), UnavailableError),
        (httpx.Response(200, text="<html>login</html>"), UnavailableError),
        (status(401, "Unauthorized"), UnavailableError),
        (status(403, "Forbidden"), InvalidError),
        (status(409, "Conflict"), ConflictError),
        (status(410, "Expired"), GoneError),
        (status(422, "Invalid", causes=[{"field": "spec"}]), InvalidError),
        (status(422, "Invalid", causes=[{"field": "metadata.uid"}]), ConflictError),
        (status(429, "TooManyRequests"), TooManyRequestsError),
        (status(500, "InternalError"), UnavailableError),
        (status(504, "Timeout"), UnavailableError),
        (httpx.Response(302, headers={"Location": "http://elsewhere.test"}), UnavailableError),
    ],
)
async def test_answers_become_errors(answer: httpx.Response, error: type[KubeError]) -> None:
    async with client_of(lambda _: answer) as client:
        with pytest.raises(KubeError, match=r"get Node n|no JSON") as caught:
            await client.get(NODE, "n")
    assert type(caught.value) is error


@pytest.mark.parametrize("content", [b"[1]", b"null", b"<html>", b"{}", b'{"ok": true}', b"\xff", b'{"items": ['])
async def test_what_is_no_list_is_never_an_empty_one(content: bytes) -> None:
    async with client_of(lambda _: httpx.Response(200, content=content)) as kube:
        with pytest.raises(UnavailableError):
            await kube.list(NODE)


@pytest.mark.parametrize("row", ["null", "7", '"text"'])
async def test_a_list_with_something_that_is_no_object_is_no_answer(row: str) -> None:
    answer = httpx.Response(200, text=f'{{"items": [{{"metadata": {{"name": "a"}}}}, {row}]}}')
    async with client_of(lambda _: answer) as client:
        with pytest.raises(UnavailableError, match="no JSON object"):
            await client.list(NODE)


async def test_busy_says_when_to_ask_again() -> None:
    async with client_of(lambda _: httpx.Response(429, headers={"Retry-After": "10"})) as client:
        with pytest.raises(TooManyRequestsError) as caught:
            await client.evict("p", "s")
    assert caught.value.retry_after_seconds == 10


async def test_a_list_whose_token_expired_begins_again_once() -> None:
    pages = iter([
        httpx.Response(200, json={"items": [{"metadata": {"name": "a"}}], "metadata": {"continue": "t"}}),
        status(410, "Expired"),
        httpx.Response(200, json={"items": [{"metadata": {"name": "b"}}], "metadata": {"resourceVersion": "9"}}),
    ])  # fmt: skip
    async with client_of(lambda _: next(pages)) as client:
        listing = await client.list(NODE)
    assert [item["metadata"]["name"] for item in listing.items] == ["b"]
    assert listing.resource_version == "9"


@pytest.mark.parametrize(
    ("answer", "error"),
    [
        (status(410, "Expired"), GoneError),
        (httpx.Response(200, text=json.dumps({"type": "ERROR", "object": {"code": 410, "reason": "Gone"}})), GoneError),
        (httpx.Response(200, text=json.dumps({"type": "ERROR", "object": {"code": 500}})), UnavailableError),
        (httpx.Response(200, text='{"type": "ADDED", "object": {'), UnavailableError),
        (httpx.Response(503, text="no"), UnavailableError),
    ],
)
async def test_broken_watches(answer: httpx.Response, error: type[KubeError]) -> None:
    async with client_of(lambda _: answer) as client:
        with pytest.raises(error):
            async for _ in client.watch(POD, "5"):
                pass


async def test_a_renewed_token_is_read(tmp_path: Path) -> None:
    seen: list[str] = []

    def handler(request: httpx.Request) -> httpx.Response:
        seen.append(request.headers["Authorization"])
        return httpx.Response(200, json={})

    token = tmp_path / "token"
    token.write_text("one\n")
    async with client_of(handler, TokenFileAuth(token)) as client:
        await client.get(NODE, "n")
        token.write_text("two")
        os.utime(token, ns=(1, 1))
        await client.get(NODE, "n")
    assert seen == ["Bearer one", "Bearer two"]


async def test_a_lost_token_file_is_no_answer(tmp_path: Path) -> None:
    async with client_of(lambda _: httpx.Response(200, json={}), TokenFileAuth(tmp_path / "none")) as client:
        with pytest.raises(UnavailableError, match="none"):
            await client.get(NODE, "n")


async def test_a_credential_plugin_is_asked_again_after_a_refusal(tmp_path: Path) -> None:
    counter = tmp_path / "count"
    script = f"""n=$(cat {counter} 2>/dev/null || echo 0); n=$((n+1)); echo $n > {counter}
echo '{{"status": {{"token": "'$n'"}}}}'"""
    seen: list[str] = []

    def handler(request: httpx.Request) -> httpx.Response:
        seen.append(request.headers["Authorization"])
        return httpx.Response(401 if len(seen) == 2 else 200, json={})

    async with client_of(handler, ExecAuth(["sh", "-c", script])) as client:
        await client.get(NODE, "n")
        await client.get(NODE, "n")
    assert seen == ["Bearer 1", "Bearer 1", "Bearer 2"]


async def test_a_credential_plugin_that_fails_is_named() -> None:
    async with client_of(lambda _: httpx.Response(200), ExecAuth(["sh", "-c", "echo no login >&2; exit 3"])) as client:
        with pytest.raises(UnavailableError, match="sh failed with 3: no login"):
            await client.get(NODE, "n")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "no complete kubeconfig"),
        ("a: [", "no complete kubeconfig"),
        ("{contexts: [], clusters: [], users: [], current-context: x}", "'x'"),
    ],
)
def test_a_broken_kubeconfig_is_named(text: str, message: str) -> None:
    with pytest.raises(AccessError, match=message):
        from_text(text, source="the kubeconfig")


async def test_a_lease_is_renewed_while_all_other_requests_hang() -> None:
    """Slow answers take up every connection of the pool: the lease's request has its own."""

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = await reader.readuntil(b"\r\n\r\n")
        if b"/leases/" not in head.split(b"\r\n")[0]:
            await reader.read()  # until the client goes
        writer.write(b'HTTP/1.1 200 OK\r\nContent-Length: 17\r\n\r\n{"kind": "Lease"}')
        await writer.drain()
        writer.close()

    server = await asyncio.start_server(answer, "127.0.0.1")
    host, port = server.sockets[0].getsockname()
    async with KubeClient(Access(f"http://{host}:{port}", True, None)) as client:
        others = [asyncio.create_task(client.get(NODE, f"n-{number}")) for number in range(60)]
        await asyncio.sleep(0)
        URGENCY.set(Urgency.LEASE)
        async with asyncio.timeout(30):
            assert await client.replace(LEASE, {"metadata": {"name": "l"}}, "sparewheel") == {"kind": "Lease"}
        for task in others:
            task.cancel()
        await asyncio.wait(others)
    server.close()


async def test_no_more_requests_are_in_flight_than_the_pace_allows_and_a_watch_takes_no_place() -> None:
    busy = most = 0
    ends = asyncio.Event()

    class Endless(httpx.AsyncByteStream):
        async def __aiter__(self) -> AsyncGenerator[bytes, None]:
            yield b'{"type": "BOOKMARK", "object": {}}\n'
            await ends.wait()

    async def answer(request: httpx.Request) -> httpx.Response:
        nonlocal busy, most
        if "watch" in request.url.params:
            return httpx.Response(200, stream=Endless())
        busy += 1
        most = max(most, busy)
        await asyncio.sleep(0.01)
        busy -= 1
        return httpx.Response(200, json={})

    transport, pace = httpx.MockTransport(answer), Pace(StillClock(), in_flight=2)
    async with KubeClient(Access("http://api.test", True), transport=transport, pace=pace) as client:
        watches = [client.watch(POD, "5") for _ in range(3)]
        for watch in watches:
            assert (await anext(watch)).type == "BOOKMARK"
        await asyncio.gather(*(client.get(NODE, f"n-{number}") for number in range(9)))
        ends.set()
        for watch in watches:
            await watch.aclose()
    assert most == 2


async def test_few_pages_of_whole_kinds_are_read_at_a_time_and_lists_of_one_node_pass_them() -> None:
    """With twenty the event loop comes round so seldom that a lease isn't renewed in time."""
    busy: list[httpx.Request] = []
    most, go_on = 0, asyncio.Event()

    async def answer(request: httpx.Request) -> httpx.Response:
        nonlocal most
        if "fieldSelector" not in request.url.params:
            busy.append(request)
            most = max(most, len(busy))
            await go_on.wait()
            busy.remove(request)
        return httpx.Response(200, json={"items": [], "metadata": {}})

    async with KubeClient(Access("http://api.test", True), transport=httpx.MockTransport(answer)) as client:
        whole = [asyncio.create_task(client.list(NODE)) for _ in range(20)]
        for _ in range(100):
            await asyncio.sleep(0)
        assert (await client.list(POD, field_selector="spec.nodeName=n")).items == []
        URGENCY.set(Urgency.FENCE)
        urgent = asyncio.create_task(client.list(POD))
        while len(busy) <= LONG_LISTS:  # noqa: ASYNC110 - without a pause
            await asyncio.sleep(0)
        go_on.set()
        await urgent
        await asyncio.gather(*whole)
    assert most == LONG_LISTS + 1, "a strike waits for nobody's long list"


@pytest.mark.parametrize("pace", [None, Pace(StillClock())])
async def test_a_program_in_the_cluster_has_no_answer_packed(pace: Pace | None) -> None:
    seen: list[str] = []

    def answer(request: httpx.Request) -> httpx.Response:
        seen.append(request.headers["Accept-Encoding"])
        return httpx.Response(200, json={"items": []})

    access, transport = Access("http://api.test", True), httpx.MockTransport(answer)
    async with KubeClient(access, transport=transport, pace=pace) as client:
        await client.list(NODE)
    assert ["gzip" in one for one in seen] == [pace is None]
