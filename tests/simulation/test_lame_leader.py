"""A leader that can take the lease and not renew it: another one leads instead, and the incident goes its way."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from typing import Any

from sparewheel.kube.lease_object import holder_in
from sparewheel.kube.pace import URGENCY, Urgency
from sparewheel.kube.port import LEASE, UnavailableError
from tests.support.job_reports import reported_attempt
from tests.support.world import NAMESPACE, World, until

TIME_OUT_SECONDS = 15.0


class Lame:
    """The connection of its lease hangs; all others are well."""

    def __init__(self, target: Any) -> None:
        self._target = target
        self.lame = False

    def __getattr__(self, name: str) -> Any:
        return getattr(self._target, name)

    async def replace(self, resource: Any, *args: Any, **kwargs: Any) -> Any:
        if self.lame and resource == LEASE and URGENCY.get() is Urgency.LEASE:
            await asyncio.sleep(TIME_OUT_SECONDS)
            raise UnavailableError("no answer")
        return await self._target.replace(resource, *args, **kwargs)


async def test_another_one_leads() -> None:
    world = World(grace_seconds=6)
    first = world.controller("first")
    first.kube = line = Lame(world.kube)  # pyright: ignore[reportAttributeAccessIssue]  # passes the rest on
    tasks = [asyncio.create_task(work) for work in (world.run(), first.run())]
    await until(first.leading)
    second = world.controller("second")
    tasks.append(asyncio.create_task(second.run()))
    job = world.submit()
    await until(lambda: reported_attempt(job) == 0)
    line.lame = True
    await asyncio.sleep(20)
    assert second.leading()
    world.break_gpu("gpu-1")
    async with asyncio.timeout(60):
        await until(world.told_all)
    assert second.leading()
    assert not first.leading()
    lease = await world.kube.get(LEASE, "sparewheel-controller", NAMESPACE)
    assert holder_in(lease).identity == "second"
    for task in tasks:
        task.cancel()
        with suppress(asyncio.CancelledError):
            await task
