"""Sees records appear and nodes being cordoned, and when."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field

from bench.processes import BenchError
from sparewheel.api.names import NAMESPACE, TAINT_FAULT
from sparewheel.kube.client import KubeClient
from sparewheel.kube.port import NODE, REMEDIATION, GoneError, Json, Resource


@dataclass(slots=True)
class Watching:
    """Wall times by node name."""

    kube: KubeClient
    recorded: dict[str, float] = field(default_factory=dict[str, float])
    cordoned: dict[str, float] = field(default_factory=dict[str, float])
    ready: asyncio.Event = field(default_factory=asyncio.Event)
    news: asyncio.Event = field(default_factory=asyncio.Event)

    async def run(self) -> None:
        records = await self.kube.list(REMEDIATION, NAMESPACE)
        nodes = await self.kube.list(NODE, keep=lambda body: {"metadata": {"name": body["metadata"]["name"]}})
        self.ready.set()
        async with asyncio.TaskGroup() as group:
            group.create_task(self._follow(REMEDIATION, records.resource_version, NAMESPACE))
            group.create_task(self._follow(NODE, nodes.resource_version, None))

    async def _follow(self, resource: Resource, version: str, namespace: str | None) -> None:
        while True:
            try:
                async for event in self.kube.watch(resource, version, namespace):
                    version = str(event.object["metadata"]["resourceVersion"])
                    if event.type in {"ADDED", "MODIFIED"}:
                        self._see(resource, event.object)
            except GoneError as error:
                raise BenchError(f"the watch fell behind: {error}") from error

    def _see(self, resource: Resource, body: Json) -> None:
        if resource == REMEDIATION:
            self.recorded.setdefault(str(body["spec"]["node"]), time.time())
        elif body["spec"].get("unschedulable") and any(
            taint["key"] == TAINT_FAULT for taint in body["spec"].get("taints", [])
        ):
            self.cordoned.setdefault(str(body["metadata"]["name"]), time.time())
        self.news.set()

    async def all_of(self, seen: Mapping[str, float], wanted: Collection[str], seconds: float) -> None:
        """Until each of ``wanted`` was seen."""
        try:
            async with asyncio.timeout(seconds):
                while not all(name in seen for name in wanted):
                    self.news.clear()
                    await self.news.wait()
        except TimeoutError:
            missing = [name for name in wanted if name not in seen]
            raise BenchError(
                f"{len(missing)} of {len(wanted)} not seen within {seconds:.0f} s: {missing[:5]}"
            ) from None
