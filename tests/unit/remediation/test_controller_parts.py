"""The controller's parts: the keyed queue, the journal under conflicts, settings, health, pools and their leases."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from dataclasses import dataclass
from itertools import pairwise

import pytest

from sparewheel.api.base import format_time
from sparewheel.api.remediation import FenceKind, NodeStage, Remediation
from sparewheel.kube.lease import held
from sparewheel.kube.memory import MemoryKube
from sparewheel.kube.port import LEASE, NODE, REMEDIATION, ConflictError, UnavailableError
from sparewheel.remediation.controller.health import health
from sparewheel.remediation.controller.loop import Controller
from sparewheel.remediation.controller.pool_leases import PoolLeases
from sparewheel.remediation.controller.pools import Pools
from sparewheel.remediation.controller.queue import SHORTEST_SECONDS, DueQueue, Key
from sparewheel.remediation.controller.settings import read_settings
from sparewheel.remediation.controller.watches import Watches
from sparewheel.remediation.decide.record import begin_once, end
from sparewheel.remediation.stages.fenced import parse_version
from sparewheel.remediation.stages.incident import Incident
from sparewheel.remediation.stages.journal import Journal, RecordGoneError
from tests.support.clocks import LoopClock
from tests.support.incidents import at, fenced, remediation
from tests.support.world import World, until

SPACE = "sparewheel"


# -------------------------------------------------------------------- the queue
@pytest.mark.looptime
async def test_the_earliest_due_comes_first_and_a_key_never_twice_at_once() -> None:
    queue, order, inside = DueQueue(LoopClock()), list[str](), set[Key]()

    async def handle(key: Key) -> float | None:
        assert key not in inside
        inside.add(key)
        await asyncio.sleep(1)
        order.append(key.name)
        inside.discard(key)
        return None

    queue.add(Key("k", "late"), 5)
    queue.add(Key("k", "soon"), 1)
    queue.add(Key("k", "soon"), 9)
    running = asyncio.create_task(queue.run(handle))
    await asyncio.sleep(1.5)
    queue.add(Key("k", "soon"))  # while it is handled: once more, afterwards
    await asyncio.sleep(20)
    assert order == ["soon", "soon", "late"]
    assert queue.keys == set()
    running.cancel()
    with suppress(asyncio.CancelledError):
        await running


@pytest.mark.looptime
async def test_keys_are_handled_side_by_side_and_ended_with_the_queue() -> None:
    queue, ended = DueQueue(LoopClock()), list[str]()

    async def handle(key: Key) -> float | None:
        try:
            await asyncio.sleep(100)
        finally:
            ended.append(key.name)
        return None

    for name in ("a", "b"):
        queue.add(Key("k", name))
    running = asyncio.create_task(queue.run(handle))
    await asyncio.sleep(1)
    assert {key.name for key in queue.running} == {"a", "b"}
    running.cancel()
    with suppress(asyncio.CancelledError):
        await running
    assert sorted(ended) == ["a", "b"]


@pytest.mark.looptime
async def test_a_handlers_answer_says_when_to_look_again() -> None:
    queue, seen = DueQueue(LoopClock()), list[float]()

    async def handle(key: Key) -> float | None:
        seen.append(asyncio.get_running_loop().time())
        return 3.0 if len(seen) < 3 else None

    queue.add(Key("k", "a"))
    running = asyncio.create_task(queue.run(handle))
    await asyncio.sleep(30)
    assert [round(later - seen[0]) for later in seen] == [0, 3, 6]
    running.cancel()
    with suppress(asyncio.CancelledError):
        await running


@pytest.mark.looptime(start=3000.0)
@pytest.mark.parametrize("rest", [1e-15, 1e-6, 0.0005, 0.002])
async def test_a_pause_too_short_for_the_clock_lets_time_pass_all_the_same(rest: float) -> None:
    queue, seen = DueQueue(LoopClock()), list[float]()

    async def handle(key: Key) -> float | None:
        seen.append(asyncio.get_running_loop().time())
        return rest if len(seen) < 20 else None

    queue.add(Key("k", "a"))
    running = asyncio.create_task(queue.run(handle))
    await asyncio.sleep(1)
    assert len(seen) == 20
    assert all(later - sooner >= SHORTEST_SECONDS - 1e-6 for sooner, later in pairwise(seen))
    running.cancel()
    with suppress(asyncio.CancelledError):
        await running


@pytest.mark.looptime
@pytest.mark.parametrize("turns", range(8))
async def test_a_queue_ends_whenever_it_is_cancelled(turns: int) -> None:
    """A process that stood still finds its lease lost and a key due in one and the same turn of the loop."""
    queue = DueQueue(LoopClock())

    async def handle(key: Key) -> float | None:
        return 1.0

    queue.add(Key("k", "a"))
    running = asyncio.create_task(queue.run(handle))
    await asyncio.sleep(5.5)
    queue.add(Key("k", "b"))
    for _ in range(turns):
        await asyncio.sleep(0)
    running.cancel()
    await asyncio.wait({running}, timeout=10)
    assert running.cancelled()


# -------------------------------------------------------------------- the journal
def stored(kube: MemoryKube) -> Remediation:
    body = kube.peek(REMEDIATION, "r", SPACE)
    assert body is not None
    return Remediation.from_wire(body)


def journal(kube: MemoryKube) -> Journal:
    return Journal(kube, Remediation.from_wire(kube.put(REMEDIATION, remediation("r").to_wire(), SPACE)))


@pytest.mark.looptime
async def test_two_writers_lose_nothing() -> None:
    kube = MemoryKube(clock=LoopClock())
    one = journal(kube)
    other = Journal(kube, one.record)
    await one.update(begin_once(NodeStage.DETECTED, at(0)))
    await other.update(begin_once(NodeStage.FENCED, at(1)))
    assert {record.name for record in stored(kube).status.stages} == {NodeStage.DETECTED, NodeStage.FENCED}


@pytest.mark.looptime
async def test_what_is_staged_is_seen_at_once_and_written_with_the_next_update() -> None:
    kube = MemoryKube(clock=LoopClock())
    one = journal(kube)
    one.stage(begin_once(NodeStage.DETECTED, at(0)))
    assert [record.name for record in one.status.stages] == [NodeStage.DETECTED]
    assert stored(kube).status.stages == []
    other = Journal(kube, stored(kube))
    await other.update(begin_once(NodeStage.CLOSED, at(2)))
    await one.update(begin_once(NodeStage.FENCED, at(1)))
    assert {record.name for record in stored(kube).status.stages} == {
        NodeStage.DETECTED, NodeStage.FENCED, NodeStage.CLOSED,
    }  # fmt: skip
    before = len(kube.writes)
    one.stage(begin_once(NodeStage.FENCED, at(9)))
    await one.flush()
    assert len(kube.writes) == before, "nothing new was staged"


@pytest.mark.looptime
async def test_what_is_staged_outlives_a_write_that_failed() -> None:
    kube = MemoryKube(clock=LoopClock())
    one = journal(kube)
    one.stage(begin_once(NodeStage.DETECTED, at(0)))
    kube.fail(UnavailableError("no answer"), "replace", REMEDIATION, when="before")
    with pytest.raises(UnavailableError):
        await one.flush()
    await one.flush()
    assert [record.name for record in stored(kube).status.stages] == [NodeStage.DETECTED]


@pytest.mark.looptime
async def test_concurrent_tracks_write_one_after_the_other() -> None:
    kube = MemoryKube(clock=LoopClock())
    one = journal(kube)
    await asyncio.gather(*(one.update(begin_once(stage, at(0))) for stage in NodeStage))
    assert len(stored(kube).status.stages) == len(NodeStage)


@pytest.mark.looptime
async def test_a_write_whose_answer_was_lost_is_read_again_before_the_next() -> None:
    kube = MemoryKube(clock=LoopClock())
    one = journal(kube)
    kube.fail(UnavailableError("no answer"), "replace", REMEDIATION, when="after")
    with pytest.raises(UnavailableError):
        await one.update(begin_once(NodeStage.DETECTED, at(0)))
    assert not await one.update(begin_once(NodeStage.DETECTED, at(9))), "it had taken effect"
    assert stored(kube).status.stages[0].started_at == at(0)


@pytest.mark.looptime
async def test_no_change_is_no_write_and_a_storm_of_conflicts_ends() -> None:
    kube = MemoryKube(clock=LoopClock())
    one = journal(kube)
    await one.update(end(NodeStage.DETECTED, at(0)))
    before = len(kube.writes)
    assert not await one.update(end(NodeStage.DETECTED, at(5)))
    assert len(kube.writes) == before
    kube.fail(ConflictError("409"), "replace", REMEDIATION, times=100)
    with pytest.raises(ConflictError, match="in a row"):
        await one.update(end(NodeStage.FENCED, at(5)))


@pytest.mark.looptime
async def test_a_deleted_record_ends_its_incident() -> None:
    kube = MemoryKube(clock=LoopClock())
    one = journal(kube)
    kube.drop(REMEDIATION, "r", SPACE)
    with pytest.raises(RecordGoneError):
        await one.update(begin_once(NodeStage.DETECTED, at(0)))


# -------------------------------------------------------------------- small things
@pytest.mark.parametrize(
    ("text", "version"),
    [("26.05.5", (26, 5)), ("slurm 25.11.0-1", (25, 11)), ("24.11.5", (24, 11)), ("", (0, 0)), ("unknown", (0, 0))],
)
def test_an_unknown_slurm_is_read_as_an_old_one(text: str, version: tuple[int, int]) -> None:
    assert parse_version(text) == version


def test_settings_come_from_the_command_line_and_the_pod() -> None:
    settings = read_settings(["--slurm-url", "http://x:1", "--token-file", "/t"], {"POD_NAME": "controller-0"})
    assert (settings.slurm_url, settings.identity, settings.namespace) == ("http://x:1", "controller-0", SPACE)
    assert read_settings([], {}).token_secret == "sparewheel-jwt-slurm"
    assert read_settings(["--api-calls-in-flight", "4"], {}).api_calls_in_flight == 4
    for wrong in (["--slurm-ulr", "x"], ["--api-calls-in-flight", "0"]):
        with pytest.raises(SystemExit):
            read_settings(wrong, {})


@pytest.mark.looptime
async def test_health_says_what_is_wrong() -> None:
    world = World()
    controller = world.controller()
    assert health(controller)[0] == 503
    running = asyncio.create_task(controller.run())
    await until(controller.leading)
    assert health(controller) == (200, {"leading": True, "incidents": 0, "unsynced": [], "troubles": []})
    running.cancel()
    with suppress(asyncio.CancelledError):
        await running


# -------------------------------------------------------------------- pools
@dataclass
class Result:
    settled: bool
    message: str = ""


@pytest.mark.looptime
async def test_a_pool_is_reconciled_under_its_lease_and_the_lease_given_back() -> None:
    world = World()
    controller = world.controller()
    running = asyncio.create_task(controller.run())
    await until(controller.leading)
    leases = PoolLeases(world.kube, world.clock, SPACE, "me", "test")
    looked: list[str] = []

    async def reconcile(pool: str, check: object) -> Result:
        looked.append(pool)
        return Result(settled=len(looked) > 1)

    pools = Pools(controller.state, leases, reconcile, check=lambda: None)
    assert await pools.look("gpu") == 2.0, "not settled: soon again"
    await asyncio.sleep(2)
    assert await pools.look("gpu") == 60.0
    await asyncio.sleep(1)
    async with held(world.kube, "sparewheel-pool-gpu", SPACE, "pulumi", world.clock, version="test"):
        await asyncio.sleep(10)
        assert await pools.look("gpu") == 10.0, "somebody else drives"
    assert len(looked) == 2
    assert await pools.look("nothing") is None
    await leases.drop_all()
    running.cancel()
    with suppress(asyncio.CancelledError):
        await running


@pytest.mark.looptime
async def test_a_pools_lease_that_a_dead_controller_held_is_taken_over() -> None:
    world = World()
    looked: list[str] = []

    async def reconcile(pool: str, check: object) -> Result:
        looked.append(pool)
        return Result(settled=True)

    spec = {"holderIdentity": "dead", "leaseDurationSeconds": 8, "renewTime": format_time(world.clock.now())}
    world.kube.put(LEASE, {"metadata": {"name": "sparewheel-pool-gpu"}, "spec": spec}, SPACE)
    controller = Controller(
        world.kube, world.slurm, world.capacity, world.receiver, world.clock, SPACE, "one", version="test",
        reconcile_pool=reconcile,
    )  # fmt: skip
    running = asyncio.create_task(controller.run())
    await until(lambda: looked == ["gpu"], 40)
    running.cancel()
    with suppress(asyncio.CancelledError):
        await running


@pytest.mark.looptime
async def test_a_pool_is_looked_at_while_its_incident_waits_for_a_person_alone() -> None:
    world = World()
    controller = world.controller()
    running = asyncio.create_task(controller.watches.run())
    await controller.watches.synced()
    leases = PoolLeases(world.kube, world.clock, SPACE, "me", "test")

    async def reconcile(pool: str, check: object) -> Result:
        return Result(settled=True)

    pools, record = Pools(controller.state, leases, reconcile, check=lambda: None), fenced()
    controller.state.taken[record.metadata.name] = Incident(controller.ports, Journal(world.kube, record))
    assert await pools.look("gpu") == 10.0, "it may claim a spare"
    record.status.fence = FenceKind.CORDON
    assert await pools.look("gpu") == 60.0, "its spares are looked after"
    await leases.drop_all()
    running.cancel()
    with suppress(asyncio.CancelledError):
        await running


@pytest.mark.looptime
async def test_a_node_that_goes_wakes_its_pool() -> None:
    world = World()
    woken: list[tuple[str, str]] = []
    watches = Watches(world.controller().state, lambda kind, name: woken.append((kind, name)))
    running = asyncio.create_task(watches.run())
    await watches.synced()
    assert ("pool", "gpu") in woken, "it is there"
    woken.clear()
    world.kube.drop(NODE, "gpu-1")
    await until(lambda: ("pool", "gpu") in woken)
    running.cancel()
    with suppress(asyncio.CancelledError):
        await running


@pytest.mark.looptime
async def test_an_incident_waits_its_turn_and_says_who_drives() -> None:
    world = World()
    leases = PoolLeases(world.kube, world.clock, SPACE, "me", "test")
    async with held(world.kube, "sparewheel-pool-gpu", SPACE, "pulumi", world.clock, version="test"):
        await leases.drive("gpu")
        await asyncio.sleep(3)
        assert await leases.drive("gpu") == "the lease of pool gpu, held by pulumi"
    await asyncio.sleep(3)
    assert await leases.drive("gpu") == ""
    await leases.drop_all()
