"""A played Crusoe Cloud that serves from a thread: for callers that bring a loop, or a process, of their own."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator
from contextlib import contextmanager

from lab.standins.crusoe.cloud import Cloud, Play
from lab.standins.crusoe.server import serving
from sparewheel.clock import SystemClock
from tests.support.crusoe_yard import CLUSTER, CREDENTIALS, H100, PROJECT

ACTS = {"issue_name": "XID_79", "default_action": "REPLACE_NODE", "effective_action": "REPLACE_NODE"}


@contextmanager
def cloud_in_thread() -> Iterator[tuple[Cloud, str]]:
    """The cloud, with room for four VMs and AutoClusters acting, and its address."""
    made = Cloud(SystemClock(), PROJECT, Play(operation_seconds=0))
    ready, loop = threading.Event(), asyncio.new_event_loop()
    made.stock[H100] = 4
    made.auto_clusters[CLUSTER] = {"remediation_configs": [dict(ACTS)]}
    address: list[str] = []
    end = asyncio.Event()

    async def serve() -> None:
        async with serving(made, CREDENTIALS) as server:
            address.append(server.url)
            ready.set()
            await end.wait()

    thread = threading.Thread(target=loop.run_until_complete, args=(serve(),))
    thread.start()
    try:
        assert ready.wait(10)
        yield made, address[0]
    finally:
        loop.call_soon_threadsafe(end.set)
        thread.join(10)
        loop.close()
