"""Plays a world with a controller for the length of a block."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager, suppress
from typing import Any

from sparewheel.api.names import (
    ANNOTATION_OWNED,
    ANNOTATION_REMEDIATION,
    ANNOTATION_REPLACE_REQUEST,
    SLINKY_NODE_CORDON_REASON,
    TAINT_FAULT,
)
from sparewheel.api.remediation import Outcome
from sparewheel.cli.commands.cancel import ask_to_cancel
from sparewheel.kube.port import Json
from sparewheel.remediation.controller.loop import Controller
from sparewheel.slurm.memory import MemoryJob
from tests.support.job_reports import reported_attempt
from tests.support.world import World, until

NODE_MARKS = frozenset(
    (ANNOTATION_REMEDIATION, ANNOTATION_OWNED, SLINKY_NODE_CORDON_REASON, ANNOTATION_REPLACE_REQUEST)
)
"""Annotations that an incident leaves on no Node."""


@asynccontextmanager
async def playing(world: World, controller: Controller | None = None) -> AsyncGenerator[Controller, None]:
    """Physics and one controller, both ended with the block."""
    controller = controller or world.controller()
    tasks = [asyncio.create_task(world.run()), asyncio.create_task(controller.run())]
    try:
        await until(lambda: len(world.slurm.node_table) == world.workers and controller.leading())
        await asyncio.sleep(5)
        yield controller
    finally:
        for task in tasks:
            task.cancel()
        for task in tasks:
            with suppress(asyncio.CancelledError):
                await task


async def training(world: World, job_id: int = 7, **fields: Any) -> MemoryJob:
    """A job that runs over all nodes and has reported its first step."""
    job = world.submit(job_id, **fields)
    await until(lambda: reported_attempt(job) == 0)
    await asyncio.sleep(12)
    return job


async def healed(world: World, seconds: float = 180.0) -> None:
    await until(lambda: bool(world.records()) and world.record().status.outcome is Outcome.HEALED, seconds)


def deletions(world: World) -> list[str]:
    return [f"{call.verb} {call.name}" for call in world.kube.writes if call.verb in {"delete", "evict"}]


def waits_for(world: World) -> str:
    return world.record().status.waiting_for if world.records() else ""


def spare_of(world: World) -> str:
    """The Slurm node that stands by."""
    (name,) = [name for name, node in world.worker_nodes().items() if node == "gpu-3"]
    return name


def in_service(world: World) -> set[str]:
    slurm = world.slurm
    reserved = {node for kept in slurm.reservation_table.values() for node in kept.nodes}
    return {n.name for n in slurm.node_table.values() if not n.down and not n.drain and n.name not in reserved}


async def ready(world: World) -> None:
    """A world with warm spares: members in service, the spare registered and reserved."""
    await until(lambda: len(in_service(world)) == world.replicas and bool(world.slurm.reservation_table))
    await until(lambda: not any(node.drain or node.down for node in world.slurm.node_table.values()))


async def call_off(world: World) -> None:
    """A person does."""
    await ask_to_cancel(world.kube, world.record().metadata.name, "ada", "a false alarm", world.clock.now())


def no_trace(world: World, node: str = "gpu-1") -> None:
    """Nothing of an incident is left on the Node, and Slurm has all its nodes."""
    body = world.node(node)
    annotations: Json = body["metadata"].get("annotations") or {}
    assert not NODE_MARKS & annotations.keys()
    taints: list[Json] = body["spec"].get("taints") or []
    assert TAINT_FAULT not in [taint["key"] for taint in taints]
    assert not body["spec"].get("unschedulable")
    assert not any(slurm.down for slurm in world.slurm.node_table.values())
