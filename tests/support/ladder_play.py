"""Worlds whose nodes are mended before they are replaced, and what is to be true of them."""

from __future__ import annotations

from typing import Any

from sparewheel.api.enums import NodeActionKind
from sparewheel.api.gpu_pool import Machine, MachinesBackend, PowerSwitch, SecretKeyRef, SshEndpoint
from sparewheel.api.ladder import LadderRule, Rung, RungResult
from sparewheel.api.names import ANNOTATION_NODE_ACTION
from sparewheel.api.remediation_policy import RemediationPolicySpec
from tests.support.node_helpers import Helpers, WorldHost
from tests.support.play import no_trace
from tests.support.world import World

RESET, REBOOT = NodeActionKind.RESET_GPU, NodeActionKind.REBOOT
RULE = LadderRule(
    rungs=[Rung(kind=RESET, timeout_seconds=60), Rung(kind=REBOOT, timeout_seconds=120)],
    mended_count=2,
    mended_window_seconds=3600,
)
SSH = SshEndpoint(address="192.0.2.1", host_key="unused")
KEY = SecretKeyRef(name="keys", key="ssh")
WITH_POWER = MachinesBackend(
    key_ref=KEY,
    machines=[Machine(name="gpu-1", ssh=SSH)],
    power=PowerSwitch(ssh=SSH, key_ref=KEY, on_command="on", off_command="off", status_command="status"),
)
OFF = LadderRule(rungs=[Rung(kind=REBOOT, timeout_seconds=120)])


def ladder_world(rule: LadderRule = RULE, **fields: Any) -> World:
    world = World(**fields)
    put_policy(world, rule)
    return world


def put_policy(world: World, rule: LadderRule = RULE, **fields: Any) -> None:
    world.put_policy(RemediationPolicySpec(routes=world.routes, ladder=rule, **fields))


def taken(world: World) -> list[tuple[NodeActionKind, RungResult | None]]:
    return [(rung.kind, rung.result) for rung in world.record().status.ladder.rungs]


def in_service(world: World, node: str = "gpu-1") -> None:
    """Nothing of ours is left on it, and Slurm has all its nodes."""
    body = world.node(node)
    no_trace(world, node)
    assert ANNOTATION_NODE_ACTION not in (body["metadata"].get("annotations") or {})
    assert not any(slurm.down or slurm.drain for slurm in world.slurm.node_table.values())


def no_spare(world: World) -> None:
    assert world.capacity.log == []
    assert [host.phase for host in world.capacity.hosts.values()] == ["Active", "Active", "Spare"]


def power_world(rule: LadderRule = RULE, *, silent: bool = False, hangs: bool = False) -> World:
    world = ladder_world(rule)
    put_policy(world, rule, node_helpers=rule is not OFF)
    world.put_pool(backend=WITH_POWER)
    helpers = Helpers(world, silent=silent, hangs=hangs)
    world.capacity.on_reboot = lambda host: WorldHost(host, helpers).reboot()
    return world


def power_cycles(world: World) -> int:
    return world.capacity.log.count(("reboot", "gpu-1"))
