"""What the controller remembers is bounded by what there is: names that nothing bears any more are forgotten."""

from __future__ import annotations

from dataclasses import fields
from typing import cast

import pytest

from sparewheel.api.base import ObjectMeta
from sparewheel.api.gpu_host import GpuHost, GpuHostSpec, GpuHostStatus, HostPhase
from sparewheel.kube.memory import MemoryKube
from sparewheel.remediation.controller.events import Events
from sparewheel.remediation.controller.state import REMEMBER_JOBS_SECONDS, State
from tests.support.clocks import StillClock
from tests.support.incidents import fenced, node, worker


@pytest.fixture
def clock() -> StillClock:
    return StillClock()


@pytest.fixture
def kube(clock: StillClock) -> MemoryKube:
    return MemoryKube(clock=clock)


@pytest.fixture
def state(kube: MemoryKube, clock: StillClock) -> State:
    return State(kube, clock, "sparewheel")


def kept(state: State) -> set[object]:
    """Names, in whatever table."""
    tables = (getattr(state, one.name) for one in fields(state))
    return {name for table in tables if isinstance(table, dict) for name in cast("dict[object, object]", table)}


def host(name: str) -> GpuHost:
    status = GpuHostStatus(phase=HostPhase.ACTIVE, node_name=name)
    return GpuHost(
        metadata=ObjectMeta(name=name),
        spec=GpuHostSpec(pool="gpu", host=name, provider_id=f"machines://{name}"),
        status=status,
    )


def test_of_nodes_that_come_and_go_only_those_that_a_host_bears_are_kept(state: State) -> None:
    state.hosts["gpu-7"] = host("gpu-7")
    state.nodes["gpu-8"] = node(name="gpu-8")
    for name in ["gpu-7", "gpu-8", *(f"cloud-{number}" for number in range(100))]:
        pod = worker(node_name=name, hostname=name, uid=name)
        state.put_worker(pod)
        state.drop_worker(pod)
        if name != "gpu-8":
            state.gone_nodes[name] = node(name=name)
    state.forget_strangers()
    assert set(state.gone_nodes) == {"gpu-7"}
    for name in ("gpu-7", "gpu-8"):
        assert state.last_worker(name) is not None
    assert state.last_worker("cloud-1") is None
    assert kept(state) == {"gpu-7", "gpu-8"}


def test_jobs_and_records_leave_no_empty_places_behind(state: State, clock: StillClock) -> None:
    state.remember_running({1: frozenset({"slurm-1"})})
    state.put_record(fenced("a"))
    state.drop_record("a")
    clock.seconds += REMEMBER_JOBS_SECONDS + 1
    state.remember_running({})
    assert kept(state) == set()


async def test_events_of_records_that_are_gone_are_forgotten(state: State, kube: MemoryKube) -> None:
    events = Events(state, "one")
    for name in ("a", "b"):
        state.put_record(fenced(name))
        await events.look(name)
    created = sum(call.verb == "create" for call in kube.calls)
    events.keep_only({"a"})
    for name in ("a", "b"):
        await events.look(name)
    again = sum(call.verb == "create" for call in kube.calls) - created
    assert again == created / 2, "of b alone, which the API server then says is there already"
