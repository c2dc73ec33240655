"""How many pods are missing or too many, and which go first."""

from __future__ import annotations

from datetime import datetime
from typing import Any, NamedTuple

from lab.standins.slinky import names
from lab.standins.slinky.nodeset import pods
from lab.standins.slinky.objects import Obj, annotations_of, dig, is_deleting, parse_time

_PHASES = {"Pending": 0, "Unknown": 1, "Running": 2}


class Scale(NamedTuple):
    """Ordinals to make and pods to let go."""

    create: list[int]
    condemn: list[Obj]


def plan(replicas: int, held: list[Obj]) -> Scale:
    """Compare the pods with the wanted number. A pod being deleted counts until its object is gone."""
    missing = replicas - len(held)
    if missing < 0:
        return Scale([], sorted(held, key=_order)[:-missing])
    used = {pods.ordinal(pod) for pod in held}
    free = (number for number in range(replicas + len(held)) if number not in used)
    return Scale([next(free) for _ in range(missing)], [])


def first_to_go(held: list[Obj]) -> list[Obj]:
    """The pods, most dispensable first."""
    return sorted(held, key=_order)


def _order(pod: Obj) -> tuple[Any, ...]:
    """Sort key: unassigned, then by phase, not ready, lower deletion cost, earlier deadline, cordoned, higher
    ordinal, ready for less time, younger.
    """
    notes = annotations_of(pod)
    deadline = parse_time(notes.get(names.POD_DEADLINE))
    return (
        bool(pods.host(pod)),
        _PHASES.get(pods.phase(pod), 0),
        pods.is_ready(pod),
        _number(notes.get(names.POD_DELETION_COST)),
        _stamp(deadline),
        not pods.is_cordoned(pod),
        -pods.ordinal(pod),
        -_stamp(pods.ready_since(pod)),
        -_stamp(parse_time(dig(pod, "metadata", "creationTimestamp"))),
    )


def _number(text: str | None) -> int:
    try:
        return int(text or 0)
    except ValueError:
        return 0


def _stamp(when: datetime | None) -> float:
    return when.timestamp() if when else 0.0


class Rollout(NamedTuple):
    """A rolling update: pods to condemn, and pods that stay."""

    condemn: list[Obj]
    keep: list[Obj]


def rollout(
    held: list[Obj], revision: str, replicas: int, max_unavailable: int | str, min_ready_seconds: int, now: datetime
) -> Rollout:
    """Old pods that may go now: unhealthy ones all, healthy ones while no more than ``max_unavailable`` are away."""
    live = [pod for pod in held if not is_deleting(pod)]
    new = [pod for pod in live if pods.revision(pod) == revision]
    old = [pod for pod in live if pods.revision(pod) != revision]
    unhealthy = [pod for pod in old if not pods.is_healthy(pod)]
    healthy = [pod for pod in old if pods.is_healthy(pod)]
    away = max(0, replicas - len(live))
    away += sum(not pods.is_available(pod, min_ready_seconds, now) for pod in new)
    budget = max(0, scaled(max_unavailable, replicas) - away)
    order = first_to_go(healthy)
    return Rollout(unhealthy + order[:budget], new + order[budget:])


def scaled(value: int | str, total: int) -> int:
    """A number, or a share of ``total`` ("25%") rounded up; at least 1."""
    if isinstance(value, str):
        if value.endswith("%"):
            return max(1, -(-int(value[:-1]) * total // 100))
        value = int(value)
    return max(1, value)
