"""A schedule is all of one play: the world's shape and what happens when. Plain data, made from a seed.

An event is independent of all others: taking some out leaves the rest as they were.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import asdict, dataclass, field, replace
from random import Random
from typing import Any

Fields = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Event:
    at: float
    """Seconds after the world is set up."""
    kind: str
    fields: Fields = field(default_factory=dict[str, Any])

    def __str__(self) -> str:
        words = " ".join(f"{key}={value}" for key, value in self.fields.items())
        return f"{self.at:6.1f} s  {self.kind} {words}".rstrip()


@dataclass(frozen=True, slots=True)
class Shape:
    replicas: int = 3
    spares: int = 2
    warm: bool = False
    grace_seconds: int = 10
    at_once: int = 1
    max_fenced_nodes: int = 10
    slurm: str = "26.05.5"


@dataclass(frozen=True, slots=True)
class Schedule:
    seed: int
    shape: Shape
    events: tuple[Event, ...]

    def without(self, dropped: set[int]) -> Schedule:
        return replace(self, events=tuple(event for index, event in enumerate(self.events) if index not in dropped))

    def to_json(self) -> str:
        return json.dumps(asdict(self))

    @classmethod
    def from_json(cls, text: str) -> Schedule:
        raw = json.loads(text)
        return cls(raw["seed"], Shape(**raw["shape"]), tuple(Event(**event) for event in raw["events"]))

    def __str__(self) -> str:
        return "\n".join([f"seed {self.seed}, {self.shape}", *map(str, self.events)])


FIRST_SECONDS, SPAN_SECONDS = 25.0, 110.0
"""Faults come within this time, after the jobs run."""
NEAR_SHARE = 0.8
"""Of all other events, this share comes about when a fault does."""
WATCHED = ("Node", "NodeHealth", "Pod", "GpuPool", "GpuHost", "Remediation", "RemediationPolicy")


def make_schedule(seed: int) -> Schedule:
    """The same for the same seed."""
    chance = Random(seed)
    replicas = chance.choice((2, 3, 3, 4))
    shape = Shape(
        replicas=replicas,
        spares=chance.choice((0, 1, 2, 3)),
        warm=chance.random() < 0.25,
        grace_seconds=chance.choice((2, 6, 10, 30)),
        at_once=chance.choice((1, 1, 2)),
        max_fenced_nodes=chance.choice((1, 2, 10, 10)),
        slurm=chance.choice(("26.05.5", "26.05.5", "26.05.5", "25.05.3")),
    )
    events = [_job(chance, number, size) for number, size in enumerate(_sizes(chance, replicas), start=1)]
    faults = [_event(chance, _FAULTS, chance.uniform(FIRST_SECONDS, SPAN_SECONDS)) for _ in range(chance.randint(1, 3))]
    events += faults
    for makers, most in ((_TROUBLES, 6), (_PEOPLE, 3), (_OTHERS, 3), (_KILLS, 2)):
        for _ in range(chance.randint(0, most)):
            near = chance.choice(faults).at + chance.uniform(-8.0, 40.0)
            anywhere = chance.uniform(FIRST_SECONDS, SPAN_SECONDS)
            events.append(_event(chance, makers, near if chance.random() < NEAR_SHARE else anywhere))
    return Schedule(seed, shape, tuple(sorted(events, key=lambda event: event.at)))


def _sizes(chance: Random, nodes: int) -> list[int]:
    """Jobs that fill the pool, or most of it."""
    sizes: list[int] = []
    while nodes and (not sizes or chance.random() < 0.8):
        sizes.append(chance.randint(1, nodes))
        nodes -= sizes[-1]
    return sizes


def _job(chance: Random, number: int, size: int) -> Event:
    kind = chance.choice(("batch", "batch", "batch", "batch", "plain", "srun", "no-requeue", "array", "het"))
    saves = round(chance.choice((0.5, 2.0, 5.0, 25.0)), 1)
    return Event(0.0, "submit", {"job": number, "size": size, "job_kind": kind, "save_seconds": saves})


Maker = Callable[[Random], Fields]


def _event(chance: Random, makers: dict[str, Maker], at: float) -> Event:
    kind = chance.choice(sorted(makers))
    return Event(round(at, 1), kind, makers[kind](chance))


def _node(chance: Random) -> Fields:
    """Which of the nodes that serve then, counted round."""
    return {"node": chance.randint(0, 5)}


def _lasting(chance: Random, most: float = 40.0) -> Fields:
    return {"seconds": round(chance.uniform(1.0, most), 1)}


def _gpu_fault(chance: Random) -> Fields:
    action = chance.choice(("replace", "replace", "replace", "replace", "reboot", "cordon", "restart_job"))
    code = {"replace": "XID 79", "reboot": "XID 95", "cordon": "XID 48", "restart_job": "XID 94"}[action]
    gpu, crash = chance.randint(0, 7), chance.random() < 0.3
    return {**_node(chance), "code": code, "action": action, "gpu": gpu, "crash": crash}


_FAULTS: dict[str, Maker] = {
    "break": _gpu_fault,
    "break again": _gpu_fault,
    "lose": lambda chance: {**_node(chance), "power": chance.choice(("off", "on", "unknown"))},
    "remove": lambda chance: {
        **_node(chance),
        "power": chance.choice(("off", "on", "unknown")),
        "back_after": chance.choice((None, round(chance.uniform(1.0, 45.0), 1))),
    },
}
_TROUBLES: dict[str, Maker] = {
    "flaky": lambda chance: {
        "port": chance.choice(("kube", "kube", "kube", "slurm", "capacity", "notify")),
        "share": round(chance.uniform(0.05, 0.6), 2),
        "when": chance.choice(("before", "after")),
        "error": chance.choice(("500", "409", "429")),
        **_lasting(chance, 60.0),
    },
    "outage": lambda chance: {"port": chance.choice(("kube", "slurm", "capacity", "notify")), **_lasting(chance)},
    "slow": lambda chance: {
        "port": chance.choice(("kube", "slurm", "capacity")),
        "delay": round(chance.uniform(0.1, 4.0), 1),
        **_lasting(chance),
    },
    "watch stalls": lambda chance: {"what": chance.choice(WATCHED), **_lasting(chance)},
    "watch loses": lambda chance: {"what": chance.choice(WATCHED), **_lasting(chance, 20.0)},
    "watch repeats": lambda chance: {"what": chance.choice(WATCHED), **_lasting(chance, 60.0)},
    "watches end": lambda chance: {"expire": chance.random() < 0.5},
    "clock jumps": lambda chance: {"by": round(chance.uniform(-90.0, 90.0), 1), "who": chance.choice(("a", "b"))},
    "lease trouble": lambda chance: _lasting(chance, 15.0),
}
_PEOPLE: dict[str, Maker] = {
    "ask": _node,
    "cancel": lambda _: {},
    "uncordon": _node,
    "veto": lambda chance: {**_node(chance), **_lasting(chance, 60.0)},
    "pause": lambda chance: _lasting(chance, 60.0),
    "cancel job": lambda chance: {"job": chance.randint(1, 4)},
    "budget blocks": lambda chance: {**_node(chance), **_lasting(chance, 60.0)},
}
_OTHERS: dict[str, Maker] = {
    "spare comes": lambda chance: {"fit": chance.random() < 0.8},
    "spare goes": lambda _: {},
    "spare ill": lambda _: {},
    "spares silent": lambda chance: _lasting(chance, 60.0),
    "blip": lambda chance: {**_node(chance), **_lasting(chance, 20.0)},
    "agent silent": lambda chance: {**_node(chance), **_lasting(chance, 90.0)},
    "job ends": lambda chance: {"job": chance.randint(1, 4), "exit_code": chance.choice((0, 1, 137))},
    "heals": _node,
    "ranks hang": lambda chance: {"job": chance.randint(1, 4), **_lasting(chance, 120.0)},
}
_KILLS: dict[str, Maker] = {
    "kill": lambda chance: {
        "writes": chance.randint(0, 12),
        "when": chance.choice(("before", "after")),
        "back_after": round(chance.uniform(0.5, 30.0), 1),
    },
}
