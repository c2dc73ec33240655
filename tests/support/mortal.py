"""A controller that is killed at its n-th write: before it takes effect, or after, when nobody hears the answer."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from typing import Any, Literal

from sparewheel.kube.port import EVENT, LEASE, UnavailableError
from sparewheel.remediation.controller.loop import Controller
from tests.support.world import World

KUBE_WRITES = frozenset({"create", "replace", "merge_patch", "delete", "evict"})
SLURM_WRITES = frozenset(
    {
        "set_node_state",
        "delete_node",
        "requeue",
        "update_job",
        "submit_batch",
        "cancel_job",
        "put_reservation",
        "delete_reservation",
    }
)
REPLACER_WRITES = frozenset(
    {
        "seat",
        "unseat",
        "note_test",
        "quarantine_spare",
        "claim_spare",
        "join_spare",
        "admit",
        "give_up",
        "prove_off",
        "reboot",
        "retire",
        "settle",
    }
)
NOTIFIER_WRITES = frozenset({"send"})


@dataclass
class Life:
    """Counts writes over all ports; leases and Events don't count."""

    die_at: int | None = None
    when: Literal["before", "after"] = "before"
    writes: list[str] = field(default_factory=list[str])
    dead: asyncio.Event = field(default_factory=asyncio.Event)


class Mortal:
    """Passes everything on, until death."""

    def __init__(self, target: Any, life: Life, writes: frozenset[str]) -> None:
        self._target, self._life, self._writes = target, life, writes

    def watch(self, *args: Any, **kwargs: Any) -> AsyncIterator[Any]:
        return self._target.watch(*args, **kwargs)

    def __getattr__(self, name: str) -> Any:
        method = getattr(self._target, name)
        if not inspect.iscoroutinefunction(method):
            return method  # asks nobody, writes nothing
        counts = name in self._writes

        async def call(*args: Any, **kwargs: Any) -> Any:
            life = self._life
            if life.dead.is_set():
                raise UnavailableError(f"{name}: this controller is dead")
            fatal = False
            if counts and not (args and args[0] in (EVENT, LEASE)):
                what = " ".join([name, *(str(getattr(arg, "kind", arg)) for arg in args if not isinstance(arg, dict))])
                fatal = life.die_at == len(life.writes)
                life.writes.append(what[:100])
            if fatal and life.when == "before":
                await self._die()
            result = await method(*args, **kwargs)
            if fatal:
                await self._die()
            return result

        return call

    async def _die(self) -> None:
        self._life.dead.set()
        await asyncio.Event().wait()  # nobody hears of it again; the test cancels what is left


def mortal_controller(world: World, life: Life, identity: str) -> Controller:
    kube: Any = Mortal(world.kube, life, KUBE_WRITES)
    slurm: Any = Mortal(world.slurm, life, SLURM_WRITES)
    replacer: Any = Mortal(world.capacity, life, REPLACER_WRITES)
    notifier: Any = Mortal(world.receiver, life, NOTIFIER_WRITES)
    return Controller(kube, slurm, replacer, notifier, world.clock, "sparewheel", identity, version="test")
