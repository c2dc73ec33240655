"""The helpers of a world's nodes: the real helper's own code, on hosts whose resets and reboots help or don't."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from sparewheel.agent.helper import LOOK_SECONDS
from sparewheel.agent.node_actions import Helper
from sparewheel.api.enums import NodeActionKind
from sparewheel.api.faults import Action
from sparewheel.api.names import ANNOTATION_NODE_ACTION
from sparewheel.api.node_health import NodeAction
from sparewheel.kube.port import NODE, NODE_HEALTH, Json
from tests.support.job_reports import alive_on
from tests.support.world import World

BOOT_SECONDS = 30.0
MENDS = {
    NodeActionKind.RESET_GPU: {Action.RESET_GPU},
    NodeActionKind.REBOOT: {Action.RESET_GPU, Action.REBOOT},
}


@dataclass
class WorldHost:
    """Implements ``sparewheel.agent.node_actions.Host`` for one node of the world."""

    node: str
    helpers: Helpers

    def holders(self, pci: str) -> list[str]:
        return self.helpers.held.get(self.node, [])

    def let_go(self) -> None: ...

    def hold_again(self) -> None: ...

    def reset_gpu(self, pci: str) -> None:
        self._touch(f"reset {pci}")
        if NodeActionKind.RESET_GPU in self.helpers.mends:
            self._heal(NodeActionKind.RESET_GPU, pci)

    def reboot(self) -> None:
        self._touch("reboot")
        if self.helpers.hangs:
            return
        self.helpers.world.go_down(self.node)
        self.helpers.back_at[self.node] = self.helpers.world.clock.monotonic_seconds() + BOOT_SECONDS

    def come_back(self) -> None:
        if NodeActionKind.REBOOT in self.helpers.mends:
            self._heal(NodeActionKind.REBOOT, "")
        self.helpers.world.come_back(self.node)

    def _touch(self, what: str) -> None:
        world = self.helpers.world
        self.helpers.done.append(f"{self.node}: {what}")
        workers = [name for name, place in world.worker_nodes().items() if place == self.node]
        running = [job for name in workers for job in alive_on(world.slurm, name)]
        assert not running, f"{what} of {self.node} under jobs {running}"

    def _heal(self, kind: NodeActionKind, pci: str) -> None:
        faults = self.helpers.world.faults
        faults[self.node] = [
            fault
            for fault in faults.get(self.node, [])
            if fault.action not in MENDS[kind] or (pci and fault.device != pci)
        ]


@dataclass
class Helpers:
    """``mends``: what helps. Look at ``done`` for what was done to the hosts."""

    world: World
    mends: set[NodeActionKind] = field(default_factory=lambda: set(NodeActionKind))
    silent: bool = False
    """No helper runs."""
    hangs: bool = False
    """A host that is told to reboot doesn't go down."""
    held: dict[str, list[str]] = field(default_factory=dict[str, list[str]])
    """Node to who holds its GPUs: a reset is refused."""
    done: list[str] = field(default_factory=list[str])
    words: dict[str, NodeAction] = field(default_factory=dict[str, NodeAction])
    back_at: dict[str, float] = field(default_factory=dict[str, float])
    _look_at: float = 0.0

    def __post_init__(self) -> None:
        self.world.helpers = self

    def step(self, monotonic_seconds: float) -> None:
        for node, at in list(self.back_at.items()):
            if monotonic_seconds >= at:
                del self.back_at[node]
                WorldHost(node, self).come_back()
        if monotonic_seconds < self._look_at or self.silent:
            return
        self._look_at = monotonic_seconds + LOOK_SECONDS
        for node in self.world.capacity.hosts:
            if node not in self.world.silent:
                self._turn(node)

    def _turn(self, node: str) -> None:
        body = self.world.kube.peek(NODE, node)
        if body is None or self.world.kube.peek(NODE_HEALTH, node) is None:
            return
        annotations: Json = body["metadata"].get("annotations") or {}
        known = self.words.get(node)
        last: dict[str, Any] = known.model_dump(mode="json", by_alias=True) if known is not None else {}
        self._helper(node).turn(str(annotations.get(ANNOTATION_NODE_ACTION) or ""), last)

    def _helper(self, node: str) -> Helper:
        """A new one each time: it keeps nothing in its own memory."""

        def write(action: dict[str, Any]) -> None:
            self.words[node] = NodeAction.model_validate(action)
            health = self.world.kube.peek(NODE_HEALTH, node)
            assert health is not None
            health["status"]["action"] = action
            self.world.kube.put(NODE_HEALTH, health)

        return Helper(
            WorldHost(node, self), self.world.boot_id(node), write, self.world.clock.now, wait=lambda _seconds: None
        )
