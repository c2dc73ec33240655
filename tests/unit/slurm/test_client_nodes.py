"""A Slurm node is deleted where Slurm lets it go, and a refusal is told from no answer."""

from __future__ import annotations

import httpx
import pytest

from sparewheel.slurm.port import SlurmError, SlurmUnavailableError
from tests.support.slurmrestd import NODE, answering, client_of, problem

KEPT = [NODE | {"name": "gpu-2"}]


@pytest.mark.parametrize("left", [[], KEPT], ids=["gone", "kept"])
async def test_what_was_refused_is_done_where_slurm_does_not_list_it(left: list[object]) -> None:
    def handler(request: httpx.Request) -> httpx.Response:
        if request.method == "GET":
            return httpx.Response(200, json={"nodes": left, "errors": [], "warnings": []})
        assert (request.method, request.url.path) == ("DELETE", "/slurm/v0.0.44/node/gpu-2")
        return httpx.Response(500, json={"errors": [problem(2016, "Node is busy")]})

    async with client_of(handler) as client:
        if not left:
            await client.delete_node("gpu-2")
            return
        with pytest.raises(SlurmError, match="slurmctld keeps it: delete node gpu-2: 500 Node is busy") as caught:
            await client.delete_node("gpu-2")
    assert not isinstance(caught.value, SlurmUnavailableError)


async def test_without_an_answer_nothing_is_known() -> None:
    async with answering(500, {"errors": [problem(1001, "Communication connection failure")]}) as client:
        with pytest.raises(SlurmUnavailableError):
            await client.delete_node("gpu-2")


async def test_it_is_deleted() -> None:
    asked: list[str] = []

    def handler(request: httpx.Request) -> httpx.Response:
        asked.append(f"{request.method} {request.url.path}")
        return httpx.Response(200, json={"errors": [], "warnings": []})

    async with client_of(handler) as client:
        await client.delete_node("gpu-2")
    assert asked == ["DELETE /slurm/v0.0.44/node/gpu-2"]
