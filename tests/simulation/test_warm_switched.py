"""A pool switched from warm spares to none and back while it runs, and two pools side by side; in memory."""

from __future__ import annotations

import asyncio

from sparewheel.api.names import REASON_REGISTERS, SPARE_WARM, TAINT_SPARE
from sparewheel.kube.port import NODE, POD
from sparewheel.remediation.decide.warm import reservation_name
from sparewheel.remediation.stages.takeover import reserve
from sparewheel.slurm.memory import MemoryNode
from sparewheel.slurm.port import SlurmError, SlurmUnavailableError
from tests.support.fake_replacer import put_node
from tests.support.play import playing, ready, spare_of, training
from tests.support.world import POOL, SLURM_NAMESPACE, World, until


async def test_switched_off_the_reservations_go_from_those_that_serve() -> None:
    world = World(warm=True)
    async with playing(world):
        await ready(world)
        spare = spare_of(world)
        world.put_pool(warm_spares=False)
        world.capacity.hosts["gpu-3"].phase = "Active"
        await until(lambda: reservation_name(spare) not in world.slurm.reservation_table)


async def test_switched_off_a_reservation_goes_also_when_its_worker_is_just_not_there() -> None:
    world = World(warm=True)
    async with playing(world):
        await ready(world)
        world.slurm.node_table[f"{POOL}-9"] = MemoryNode(f"{POOL}-9")
        await reserve(world.slurm, f"{POOL}-9", world.clock.now())
        world.put_pool(warm_spares=False)
        await until(lambda: reservation_name(f"{POOL}-9") not in world.slurm.reservation_table)


async def test_the_reservation_of_a_member_that_does_not_come_is_looked_at_rarely_and_goes_once_it_does() -> None:
    world = World(warm=True)
    async with playing(world):
        await ready(world)
        member = next(name for name, node in world.worker_nodes().items() if node == "gpu-1")
        spare = spare_of(world)
        await world.kube.merge_patch(NODE, "gpu-1", {"spec": {"unschedulable": True}})
        world.kube.drop(POD, member, SLURM_NAMESPACE)
        await until(lambda: reservation_name(member) in world.slurm.reservation_table, 10)
        world.warm = False
        world.kube.drop(POD, spare, SLURM_NAMESPACE)
        world.put_pool(warm_spares=False)
        await until(lambda: set(world.slurm.reservation_table) == {reservation_name(member)}, 30)
        await asyncio.sleep(120)
        before = len(world.slurm.calls)
        await asyncio.sleep(600)
        looks = [name for name, _ in world.slurm.calls[before:] if name == "reservations"]
        assert 5 <= len(looks) <= 30, "two a look"
        world.uncordon("gpu-1")
        await until(lambda: not world.slurm.reservation_table, 65)


async def test_a_pool_without_warm_spares_leaves_those_of_a_pool_whose_name_begins_alike() -> None:
    world = World()
    async with playing(world):
        for name in (f"{POOL}-big-2", f"{POOL}-7"):
            world.slurm.node_table[name] = MemoryNode(name, down=True)
            await reserve(world.slurm, name, world.clock.now())
        world.put_pool(max_concurrent_replacements=2)
        await until(lambda: reservation_name(f"{POOL}-7") not in world.slurm.reservation_table)
        await asyncio.sleep(5)
        assert reservation_name(f"{POOL}-big-2") in world.slurm.reservation_table


def spare_taint(world: World) -> str:
    (taint,) = [one for one in world.node("gpu-3")["spec"]["taints"] if one["key"] == TAINT_SPARE]
    return taint.get("value", "")


def the_spares_worker_goes(world: World, spare: str) -> None:
    """The worker set has one worker less; Slinky's preStop is its last word."""
    world.warm = False
    world.put_pool(warm_spares=False)
    world.kube.drop(POD, spare, SLURM_NAMESPACE)
    world._terminating(spare)


async def test_switched_off_the_spares_slurm_node_goes_with_its_worker_and_comes_anew_when_switched_on() -> None:
    world = World(warm=True)
    async with playing(world):
        await ready(world)
        spare = spare_of(world)
        world.slurm.fail(SlurmUnavailableError("away"), "delete_node")
        the_spares_worker_goes(world, spare)
        await until(lambda: spare not in world.slurm.node_table, 20)
        assert not world.slurm.reservation_table
        assert set(world.slurm.node_table) == set(world.worker_nodes()), "what is left serves"
        world.warm = True
        world.put_pool(warm_spares=True)
        await until(lambda: reservation_name(spare) in world.slurm.reservation_table, 20)
        await until(lambda: not world.slurm.node_table[spare].drain, 20)
        assert spare_taint(world) == SPARE_WARM


async def test_a_slurm_node_that_a_waiting_job_names_or_a_person_drained_stays() -> None:
    world = World(warm=True)
    async with playing(world):
        await ready(world)
        spare = spare_of(world)
        named = world.submit(9, 1, wanted_node=spare)
        the_spares_worker_goes(world, spare)
        await until(lambda: not world.slurm.reservation_table, 20)
        await asyncio.sleep(10)
        assert (named.state, spare in world.slurm.node_table) == ("PENDING", True)
        world.slurm.cancel(9)
        world.slurm.give_reason(spare, "bad HBM, ask Kim")
        world.put_pool(warm_spares=False, max_concurrent_replacements=3)
        await asyncio.sleep(10)
        assert spare in world.slurm.node_table


async def test_where_slurm_keeps_the_node_the_look_ends_all_the_same() -> None:
    world = World(warm=True)
    async with playing(world):
        await ready(world)
        spare = spare_of(world)
        world.slurm.fail(SlurmError("delete node: 500 Invalid node state"), "delete_node", times=99)
        the_spares_worker_goes(world, spare)
        await until(lambda: ("delete_node", (spare,)) in world.slurm.calls, 20)
        await asyncio.sleep(30)
        assert world.slurm.calls.count(("delete_node", (spare,))) == 1
        assert spare in world.slurm.node_table


async def test_switched_off_and_on_again_no_job_lands_on_the_spare_and_it_stands_by_once_more() -> None:
    """Where Slurm keeps the spare's node meanwhile."""
    world = World(warm=True)
    async with playing(world):
        world.slurm.fail(SlurmError("delete node: 500 Invalid node state"), "delete_node", times=99)
        await ready(world)
        job, spare = await training(world), spare_of(world)
        small = world.submit(9, 1)
        world.warm = False  # the worker set has one worker less
        world.put_pool(warm_spares=False)
        world.kube.drop(POD, spare, SLURM_NAMESPACE)
        world.slurm.node_table[spare].down = True
        world.slurm.give_reason(spare, "slurm-operator: Pod is terminating")
        await until(lambda: not world.slurm.reservation_table and spare_taint(world) == "", 20)
        assert small.state == "PENDING"
        world.warm = True
        world.slurm.node_table[spare].down = False  # as Slinky does once, for a worker that moved
        world.slurm.node_table[spare].drain = True
        world.put_pool(warm_spares=True)
        await until(lambda: world.worker_nodes().get(spare) == "gpu-3", 20)
        assert world.slurm.node_table[spare].drain
        await until(lambda: spare not in world._register_at, 20)
        assert reservation_name(spare) in world.slurm.reservation_table, "before it came up"
        world.slurm.give_reason(spare, "")
        await until(lambda: not world.slurm.node_table[spare].drain, 20)
        assert spare_taint(world) == SPARE_WARM
        assert (job.restart_count, small.state) == (0, "PENDING")


async def test_a_spares_worker_that_comes_up_on_a_serving_host_serves_also_where_its_drain_lasts() -> None:
    """Its pod is made again without the tolerance, and Slinky's last word on it is that the pod before ended."""
    world = World(warm=True)
    async with playing(world):
        await ready(world)
        spare, table = spare_of(world), world.slurm.node_table
        world.warm, world.replicas = False, 3
        world.capacity.hosts["gpu-3"].phase = "Active"
        put_node(world.kube, "gpu-3", POOL, [])
        world.put_pool(warm_spares=False, size=3)
        table[spare].drain = True
        world.kube.drop(POD, spare, SLURM_NAMESPACE)
        await until(lambda: "Pod is terminating" in table[spare].reason)
        assert table[spare].down
        await until(lambda: not table[spare].drain and not table[spare].down, 30)
        await until(lambda: not world.slurm.reservation_table, 10)


async def test_a_worker_that_was_drained_at_its_registration_serves_after_the_switch_whatever_slinky_wrote() -> None:
    world = World(warm=True)
    async with playing(world):
        await ready(world)
        member = next(name for name, node in world.worker_nodes().items() if node == "gpu-1")
        node, pod = world.slurm.node_table[member], world.kube.peek(POD, member, SLURM_NAMESPACE)
        assert pod is not None
        pod["status"] = {}  # it has registered, and is not ready yet
        world.kube.put(POD, pod, SLURM_NAMESPACE)
        node.drain = True
        world.slurm.give_reason(member, REASON_REGISTERS)
        await asyncio.sleep(3)
        assert node.drain
        world.put_pool(warm_spares=False)
        world.kube.drop(POD, member, SLURM_NAMESPACE)
        await until(lambda: "Pod is terminating" in node.reason, 5)
        assert node.drain
        await until(lambda: not node.drain and not node.down, 30)


async def test_a_node_that_a_person_drained_stays_out_after_the_switch_also_under_slinkys_words() -> None:
    world = World(warm=True)
    async with playing(world):
        await ready(world)
        member = next(name for name, node in world.worker_nodes().items() if node == "gpu-1")
        node = world.slurm.node_table[member]
        await world.slurm.set_node_state(member, ["DRAIN"], "bad HBM, ask Kim")
        await asyncio.sleep(3)
        world.put_pool(warm_spares=False)
        await asyncio.sleep(3)
        world.kube.drop(POD, member, SLURM_NAMESPACE)
        await until(lambda: "Pod is terminating" in node.reason, 5)
        await asyncio.sleep(60)
        assert node.down, "Slinky takes back a drain under its own words, and nobody the DOWN"


async def test_a_member_that_registered_drained_serves_also_when_warm_spares_are_switched_off_just_then() -> None:
    world = World(warm=True)
    async with playing(world):
        await ready(world)
        member = next(name for name, node in world.worker_nodes().items() if node == "gpu-1")
        world.put_pool(warm_spares=False)
        world.slurm.node_table[member].drain = True
        world.slurm.give_reason(member, REASON_REGISTERS)
        world.put_pool(warm_spares=False, max_concurrent_replacements=3)
        await until(lambda: not world.slurm.node_table[member].drain, 10)
