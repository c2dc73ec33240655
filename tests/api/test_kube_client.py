"""The real client against a real API server."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import httpx
import pytest

from lab.api_server import with_token
from sparewheel.kube.access import Access, from_file
from sparewheel.kube.client import PAGE, KubeClient
from sparewheel.kube.port import (
    CONFIG_MAP,
    NAMESPACE_KIND,
    NODE,
    InvalidError,
    NotFoundError,
    Resource,
    UnavailableError,
)
from tests.kube_contract import SPACE, KubeContract, config_map, unique


@pytest.mark.usefixtures("crds")
class TestKubeClient(KubeContract):
    pass


async def test_lists_are_read_page_by_page(kube: KubeClient) -> None:
    group = unique("group")
    count = PAGE + 7
    for index in range(count):
        await kube.create(CONFIG_MAP, config_map(f"{group}-{index}", group=group), SPACE)
    assert len((await kube.list(CONFIG_MAP, SPACE, {"group": group})).items) == count


async def test_a_kind_that_is_not_served_proves_no_absence(kube: KubeClient) -> None:
    stranger = Resource("nobody.example.dev", "v1", "things", "Thing")
    with pytest.raises(UnavailableError, match="CRDs installed"):
        await kube.get(stranger, "any", SPACE)


async def test_a_missing_namespace_is_named(kube: KubeClient) -> None:
    with pytest.raises(NotFoundError, match="nowhere"):
        await kube.create(CONFIG_MAP, config_map("a"), "nowhere")


async def test_a_server_that_does_not_answer_is_unavailable(api_server: Path) -> None:
    access = from_file(api_server)
    dead = Access("https://127.0.0.1:1", access.tls, access.auth)
    async with KubeClient(dead, read_attempts=1) as client:
        with pytest.raises(UnavailableError, match=r"get Node n: https://127.0.0.1:1 did not answer"):
            await client.get(NODE, "n")


async def test_no_credentials_prove_nothing(api_server: Path) -> None:
    access = with_token(api_server, "wrong")
    async with KubeClient(access, read_attempts=1) as client:
        with pytest.raises(UnavailableError, match="renew the token"):
            await client.get(NODE, "n")


async def test_an_invalid_object_is_refused(kube: KubeClient) -> None:
    with pytest.raises(InvalidError, match=r"metadata\.name"):
        await kube.create(CONFIG_MAP, config_map("Not_A_Name"), SPACE)


@pytest.fixture
async def flaky(api_server: Path) -> AsyncIterator[tuple[KubeClient, list[str]]]:
    """A client whose first answer to every GET is a 503."""
    access = from_file(api_server)
    inner = httpx.AsyncHTTPTransport(verify=access.tls)
    seen: list[str] = []

    class Flaky(httpx.AsyncBaseTransport):
        async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
            seen.append(request.method)
            if len(seen) == 1:
                return httpx.Response(503, text="try later")
            return await inner.handle_async_request(request)

    async with KubeClient(access, transport=Flaky()) as client:
        yield client, seen


async def test_reads_are_retried(flaky: tuple[KubeClient, list[str]]) -> None:
    client, seen = flaky
    await client.get(NAMESPACE_KIND, SPACE)
    assert seen == ["GET", "GET"]


async def test_writes_are_not_retried(flaky: tuple[KubeClient, list[str]]) -> None:
    client, seen = flaky
    with pytest.raises(UnavailableError, match="503 try later"):
        await client.create(CONFIG_MAP, config_map(unique("cm")), SPACE)
    assert seen == ["POST"]
