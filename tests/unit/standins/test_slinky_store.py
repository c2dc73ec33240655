"""What the stand-in holds of the cluster: the newest known state, and nothing that has gone."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any

from lab.standins.slinky.objects import Obj
from lab.standins.slinky.store import Store
from sparewheel.clock import SystemClock


def pod(version: int) -> Obj:
    metadata = {"name": "gpu-0", "namespace": "slurm", "uid": "u-1", "resourceVersion": str(version)}
    return {"kind": "Pod", "metadata": metadata}


class OnePodGoes:
    """An API server with one pod, which is deleted as soon as it is watched."""

    async def list(self, _: str) -> tuple[list[Obj], str]:
        return [pod(1)], "1"

    async def watch(self, _kind: str, _version: str) -> AsyncIterator[tuple[str, Obj]]:
        yield "DELETED", pod(3)
        await asyncio.Event().wait()


async def test_the_late_answer_to_a_write_brings_nothing_back() -> None:
    gone = asyncio.Event()

    def changed(_kind: str, _before: Obj | None, after: Obj | None) -> None:
        if after is None:
            gone.set()

    store, kube = Store(changed), OnePodGoes()
    api: Any = kube
    following = asyncio.create_task(store.follow(api, "Pod", SystemClock()))
    async with asyncio.timeout(30):
        await gone.wait()
    store.put(pod(2))
    assert not list(store.all("Pod"))
    following.cancel()
