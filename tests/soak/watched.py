"""A controller whose every effect goes past the witness, over connections that have whatever trouble there is."""

from __future__ import annotations

from typing import Any

from sparewheel.api.names import NAMESPACE
from sparewheel.clock import Clock
from sparewheel.remediation.controller.loop import Controller
from tests.soak.wire import Chaos, Wire
from tests.soak.witness import Witness
from tests.soak.world import SoakWorld
from tests.support.mortal import Life


def watched_controller(
    world: SoakWorld, witness: Witness, identity: str, *, clock: Clock, life: Life, chaos: Chaos
) -> Controller:
    def wire(target: object, port: str) -> Any:
        return Wire(target, port, chaos, life, witness.seen)

    return Controller(
        wire(world.kube, "kube"),
        wire(world.slurm, "slurm"),
        wire(world.capacity, "capacity"),
        wire(world.receiver, "notify"),
        clock,
        NAMESPACE,
        identity,
        version="test",
    )
