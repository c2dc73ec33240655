"""Many reports through the whole loop: a million of 40 nodes, 5,000 in each second, while GPUs break and are healed."""

from __future__ import annotations

import asyncio
import resource
import time
from dataclasses import dataclass, field
from datetime import timedelta
from random import Random

from sparewheel.api.base import format_time
from sparewheel.api.remediation import Outcome
from sparewheel.kube.port import NODE_HEALTH, Json
from tests.soak import happen, judge
from tests.soak.schedule import Event, Shape
from tests.soak.watched import watched_controller
from tests.soak.wire import Chaos
from tests.soak.witness import Witness
from tests.soak.world import SoakWorld
from tests.support import timeloop
from tests.support.mortal import Life

NODES = 40
SPARES = 8
PER_SECOND = 5_000
BATCH = 250
MILD_EVERY = 20
"""One report in so many has a mild fault, which has to be looked at and is left alone."""
WINDOW = 50_000
HEAL_SECONDS = 120.0


@dataclass(slots=True)
class Load:
    world: SoakWorld
    chance: Random
    sent: int = 0
    windows: list[float] = field(default_factory=list[float])
    """Real seconds for each 50,000 events."""

    async def send(self, events: int) -> None:
        """Batches at an even pace; each is worked off before the next."""
        begun = time.perf_counter()
        for _ in range(events // BATCH):
            for _ in range(BATCH):
                self._report()
            await asyncio.sleep(BATCH / PER_SECOND)
            if self.sent % WINDOW == 0:
                self.windows.append(time.perf_counter() - begun)
                begun = time.perf_counter()
                self.world.kube.calls.clear()

    def _report(self) -> None:
        self.sent += 1
        name = f"gpu-{self.chance.randint(1, NODES)}"
        body = self.world.kube.peek(NODE_HEALTH, name)
        if body is None or name in self.world.silent:
            return
        now = format_time(self.world.clock.now() + timedelta(microseconds=self.sent))
        body["status"]["heartbeatTime"] = now
        if self.sent % MILD_EVERY == 0:
            body["status"]["faults"] = [*body["status"]["faults"], _mild(now, self.sent)]
        self.world.kube.put(NODE_HEALTH, body)


def _mild(now: str, count: int) -> Json:
    return {
        "code": "XID 31",
        "device": "0000:07:00",
        "gpuIndex": 7,
        "action": "record",
        "severity": "info",
        "firstSeen": "2026-01-01T00:00:00.000000Z",
        "lastSeen": now,
        "count": count,
    }


async def play_load(events: int, seed: int) -> tuple[Load, list[str]]:
    world = SoakWorld.of(Shape(replicas=NODES, spares=SPARES, at_once=4, max_fenced_nodes=SPARES))
    load = Load(world, Random(seed))
    witness = Witness(world, clocks_right=True)
    controller = watched_controller(world, witness, "one", clock=world.clock, life=Life(), chaos=Chaos(seed))
    tasks = [asyncio.create_task(world.run()), asyncio.create_task(controller.run())]
    while len(world.slurm.node_table) < NODES or not controller.leading():  # noqa: ASYNC110 - the world has no event
        await asyncio.sleep(0.25)
    for number in range(1, NODES // 4 + 1):
        world.submit(number, 4)
    await asyncio.sleep(15.0)
    for number in range(SPARES):
        await load.send(events // SPARES)
        fields = {"node": number, "code": "XID 79", "action": "replace", "gpu": 0, "crash": False}
        happen.happen(world, Event(0.0, "break", fields))
    wrongs = await _end(world)
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
    return load, wrongs


async def _end(world: SoakWorld) -> list[str]:
    waited = 0.0
    while judge.unfinished(world) and waited < HEAL_SECONDS:
        await asyncio.sleep(1.0)
        waited += 1.0
    healed = sum(record.status.outcome is Outcome.HEALED for record in world.records())
    judge.judge(world)
    if healed != SPARES:
        world.truth.wrong(f"{healed} of {SPARES} faults healed: {judge.unfinished(world)}")
    return world.truth.wrongs


def measure(events: int, seed: int) -> int:
    """Prints events per second, over all and in the slowest window, and what memory grew by."""
    begun, cpu, memory = time.perf_counter(), time.process_time(), _memory_mb()
    load, wrongs = timeloop.run(play_load(events, seed))
    seconds, busy = time.perf_counter() - begun, time.process_time() - cpu
    print(f"{load.sent} events in {seconds:.1f} s ({busy:.1f} s CPU): {load.sent / seconds:.0f} events/s")
    if load.windows:
        print(f"slowest {WINDOW} events: {WINDOW / max(load.windows):.0f} events/s")
    print(f"memory grew from {memory:.0f} to {_memory_mb():.0f} MB; {SPARES} faults were to be healed meanwhile")
    print("\n".join([*wrongs, f"{len(wrongs)} wrong"]))
    return 1 if wrongs else 0


def _memory_mb() -> float:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
