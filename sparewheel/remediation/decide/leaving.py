"""The pods beside the worker leave a node: evicted, their budgets honoured until the deadline, then deleted. Pure."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime

from sparewheel.remediation.decide.drain import stuck
from sparewheel.remediation.decide.node_step import NodeAction, Todo
from sparewheel.remediation.decide.observations import NodeView, PodView


@dataclass(frozen=True, slots=True)
class Leaving:
    todo: tuple[Todo, ...]
    waits: tuple[str, ...]
    still_there: bool
    """Pods that somebody will still end."""


def others_leave(pods: Iterable[PodView], node: NodeView, now: datetime, *, over: bool) -> Leaving:
    """``over``: the deadline is, so budgets no longer hold them."""
    todo: list[Todo] = []
    waits: list[str] = []
    still_there = False
    for pod in pods:
        if not pod.deleting:
            todo.append(Todo(NodeAction.DELETE_POD if over else NodeAction.EVICT, pod))
            still_there = True
        elif not stuck(pod, node, now):
            waits.append(f"pod {pod.namespace}/{pod.name} to end")
            still_there = True
    return Leaving(tuple(todo), tuple(waits), still_there)
