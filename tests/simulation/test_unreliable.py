"""Seeded trouble: requests fail before or after they took effect, all through an incident. Nothing happens twice."""

from __future__ import annotations

import random
from typing import Any

import pytest

from sparewheel.api.names import NAMESPACE
from sparewheel.api.remediation import Outcome
from sparewheel.capacity.port import CapacityError
from sparewheel.kube.memory_faults import Call
from sparewheel.kube.port import LEASE, ConflictError, UnavailableError
from sparewheel.notify.port import NotifyError
from sparewheel.remediation.controller.loop import Controller
from sparewheel.slurm.port import SlurmUnavailableError
from tests.support.play import playing, training
from tests.support.world import World, until

SHARE = 0.08
"""Of all requests, this share fails, half of them after they took effect."""


class Trouble:
    """Off until ``on`` is set, so that the world can be set up."""

    def __init__(self, seed: int) -> None:
        self.on = False
        self._chance = random.Random(seed)

    def strikes(self, share: float = SHARE / 2) -> bool:
        return self.on and self._chance.random() < share

    def kube_fails(self, call: Call) -> None:
        if call.resource != LEASE and call.verb != "watch" and self.strikes():
            error = ConflictError if call.writes and self.strikes(0.3) else UnavailableError
            raise error(f"{call.verb} {call.resource.kind}: trouble")

    def kube_loses_the_answer(self, call: Call) -> None:
        if call.resource != LEASE and call.writes and self.strikes():
            raise UnavailableError(f"{call.verb} {call.resource.kind}: no answer")


class Shaky:
    """A port whose requests fail now and then, before or after they took effect."""

    def __init__(self, target: Any, trouble: Trouble, error: type[Exception]) -> None:
        self._target, self._trouble, self._error = target, trouble, error

    def __getattr__(self, name: str) -> Any:
        method = getattr(self._target, name)

        async def call(*args: Any, **kwargs: Any) -> Any:
            if self._trouble.strikes():
                raise self._error(f"{name}: trouble")
            result = await method(*args, **kwargs)
            if self._trouble.strikes():
                raise self._error(f"{name}: no answer")
            return result

        return call


def shaky_controller(world: World, trouble: Trouble) -> Controller:
    slurm: Any = Shaky(world.slurm, trouble, SlurmUnavailableError)
    capacity: Any = Shaky(world.capacity, trouble, CapacityError)
    notifier: Any = Shaky(world.receiver, trouble, NotifyError)
    world.kube.before, world.kube.after = trouble.kube_fails, trouble.kube_loses_the_answer
    return Controller(world.kube, slurm, capacity, notifier, world.clock, NAMESPACE, "one", version="test")


@pytest.mark.parametrize("seed", range(12))
async def test_trouble_all_the_way(seed: int) -> None:
    world = World(grace_seconds=6)
    trouble = Trouble(seed)
    async with playing(world, shaky_controller(world, trouble)):
        job = await training(world)
        trouble.on = True
        world.break_gpu("gpu-1")
        await until(lambda: bool(world.records()) and world.record().status.outcome is Outcome.HEALED, 900)
        await until(lambda: all(one.closed for one in world.record().status.jobs), 300)
        await until(lambda: all(one.delivered_at for one in world.record().status.outbox), 900)
        assert job.restart_count == 1
        assert job.state == "RUNNING"
        assert not any(node.down or node.drain for node in world.slurm.node_table.values())
        phases = {host.name: host.phase for host in world.capacity.hosts.values()}
        assert phases == {"gpu-1": "Quarantined", "gpu-2": "Active", "gpu-3": "Active"}
        kinds = sorted(event["event"] for event in world.receiver.events.values())
        told = [kind for kind in kinds if kind != "incident.waiting"]  # trouble that lasts may add one
        assert told == ["incident.closed", "incident.detected", "job.resumed"]
        assert kinds.count("incident.waiting") <= 1
