"""Election by Lease on a real API server: a killed holder is succeeded."""

from __future__ import annotations

import asyncio
import signal
import sys
import time
from pathlib import Path

from sparewheel.clock import SystemClock
from sparewheel.kube.client import KubeClient
from sparewheel.kube.lease import LeaseTiming, held
from sparewheel.kube.lease_object import holder_of
from tests.kube_contract import SPACE, unique

TIMING = LeaseTiming(duration_seconds=3, renew_seconds=0.5)

HOLDER = """
import asyncio, sys
from pathlib import Path
from sparewheel.clock import SystemClock
from sparewheel.kube.access import from_file
from sparewheel.kube.client import KubeClient
from sparewheel.kube.lease import LeaseTiming, held

async def main():
    async with KubeClient(from_file(Path(sys.argv[1]))) as kube:
        async with held(kube, sys.argv[2], "default", "other", SystemClock(), version="7", timing=LeaseTiming(3, 0.5)):
            print("held", flush=True)
            await asyncio.sleep(60)

asyncio.run(main())
"""


async def test_two_take_turns(kube: KubeClient) -> None:
    name, clock = unique("lease"), SystemClock()
    inside = 0
    order: list[str] = []

    async def work(identity: str) -> None:
        nonlocal inside
        async with held(kube, name, SPACE, identity, clock, version="1", timing=TIMING):
            inside += 1
            assert inside == 1
            order.append(identity)
            await clock.sleep(1.2)
            inside -= 1

    await asyncio.gather(work("a"), work("b"))
    assert sorted(order) == ["a", "b"]
    assert await holder_of(kube, name, SPACE) is None


async def test_a_killed_holder_is_succeeded(kube: KubeClient, api_server: Path) -> None:
    name = unique("lease")
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-c", HOLDER, str(api_server), name, stdout=asyncio.subprocess.PIPE
    )
    assert process.stdout is not None
    assert await asyncio.wait_for(process.stdout.readline(), 30) == b"held\n"
    holder = await holder_of(kube, name, SPACE)
    assert holder is not None
    assert (holder.identity, holder.version) == ("other", "7")
    process.send_signal(signal.SIGKILL)
    await process.wait()
    killed = time.monotonic()
    async with held(kube, name, SPACE, "me", SystemClock(), version="8", timing=TIMING) as handle:
        waited = time.monotonic() - killed
        handle.check()
        holder = await holder_of(kube, name, SPACE)
    assert holder is not None
    assert (holder.identity, holder.version) == ("me", "8")
    assert 2.0 < waited < 8.0
