"""Slurm's token: read again where it was refused or renewed."""

from __future__ import annotations

import base64
import os
from pathlib import Path

import httpx
import pytest

from sparewheel.kube.memory import MemoryKube
from sparewheel.kube.port import SECRET, UnavailableError
from sparewheel.slurm.client import SlurmClient
from sparewheel.slurm.port import SlurmUnavailableError
from sparewheel.slurm.token import FileToken, SecretToken
from tests.support.clocks import StillClock
from tests.support.slurmrestd import JOB, Token


async def test_a_refused_token_is_read_again_once() -> None:
    token, seen = Token(), list[str]()

    def handler(request: httpx.Request) -> httpx.Response:
        seen.append(request.headers["X-SLURM-USER-TOKEN"])
        good = request.headers["X-SLURM-USER-TOKEN"] == "new"
        return httpx.Response(200 if good else 511, json={"jobs": [JOB]} if good else {"errors": []})

    async with SlurmClient("http://rest.test", token, transport=httpx.MockTransport(handler)) as client:
        await client.job(27)
    assert seen == ["old", "new"]
    assert token.asked == [False, True]


async def test_a_token_file_is_followed(tmp_path: Path) -> None:
    file = tmp_path / "jwt"
    source = FileToken(file)
    with pytest.raises(SlurmUnavailableError, match="can't be read"):
        await source.token()
    file.write_text("one\n")
    assert await source.token() == "one"
    file.write_text("two")
    os.utime(file, ns=(1, 1))
    assert await source.token() == "two"
    file.write_text("")
    with pytest.raises(SlurmUnavailableError, match="is empty"):
        await source.token(fresh=True)


async def test_a_token_secret_is_followed() -> None:
    kube, clock = MemoryKube(), StillClock()
    source = SecretToken(kube, "slurm", "jwt", "SLURM_JWT", clock)
    with pytest.raises(SlurmUnavailableError, match="404"):
        await source.token()
    for value in ("one", "two"):
        data = {"SLURM_JWT": base64.b64encode(value.encode()).decode()}
        kube.put(SECRET, {"metadata": {"name": "jwt"}, "data": data}, "slurm")
        assert await source.token() == "one" if value == "one" else True
    assert await source.token() == "one", "not asked for at every request"
    clock.seconds += 31
    assert await source.token() == "two"
    kube.fail(UnavailableError("away"), "get", SECRET)
    with pytest.raises(SlurmUnavailableError, match="away"):
        await source.token(fresh=True)
    kube.put(SECRET, {"metadata": {"name": "jwt"}, "data": {}}, "slurm")
    with pytest.raises(SlurmUnavailableError, match="is the Token object issued"):
        await source.token(fresh=True)
