"""What a schedule's events do to the world: faults, people, spares, jobs. One function for each kind."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any, Final

from sparewheel.api.faults import Action
from sparewheel.api.names import ANNOTATION_CANCEL, ANNOTATION_REPLACE_REQUEST
from sparewheel.api.remediation import Remediation, Trigger
from sparewheel.kube.port import NODE, POD, REMEDIATION
from sparewheel.remediation.decide.cancel import past_recall
from sparewheel.remediation.decide.record import is_open
from sparewheel.slurm.memory import MemoryJob
from tests.soak.schedule import Event, Fields
from tests.soak.world import SoakWorld
from tests.support.fake_replacer import FakeHost, put_node
from tests.support.world import POOL

JOB_KINDS: Final[dict[str, dict[str, Any]]] = {
    "batch": {},
    "plain": {"expedited": False},
    "srun": {"batch": False, "expedited": False},
    "no-requeue": {"requeue": False},
    "array": {"array_job_id": 90, "expedited": False},
    "het": {"het_job_id": 91, "expedited": False},
}


def node_of(world: SoakWorld, fields: Fields) -> str | None:
    """The node that the event means: one of those that serve now."""
    names = world.actives()
    return names[int(fields["node"]) % len(names)] if names else None


def later(fields: Fields, act: Callable[[], object]) -> None:
    asyncio.get_running_loop().call_later(float(fields["seconds"]), act)


def happen(world: SoakWorld, event: Event) -> None:
    """The event takes place. Where there is nothing that it could be about, nothing happens."""
    fields, name = event.fields, event.kind
    if name in _ON_NODES:
        node = node_of(world, fields)
        if node is not None and world.kube.peek(NODE, node) is not None:
            _ON_NODES[name](world, node, fields)
    else:
        _ELSE[name](world, fields)


# -------------------------------------------------------------------- nodes
def _break(world: SoakWorld, node: str, fields: Fields) -> None:
    action = Action(fields["action"])
    world.truth.ask(node, action)
    if fields["crash"]:
        slurm_node = next((name for name, place in world.worker_nodes().items() if place == node), None)
        for job in world.running_on(slurm_node or ""):
            _end(world, job, 137)
    if node not in world.silent:
        world.break_gpu(node, code=fields["code"], gpu=fields["gpu"], action=action)


def _lose(world: SoakWorld, node: str, fields: Fields) -> None:
    if node in world.truth.lost or not any(host.node == node for host in world.capacity.hosts.values()):
        return
    world.truth.ask(node, Action.REPLACE)
    world.truth.lost.add(node)
    world.lose(node, power=fields["power"])


def _remove(world: SoakWorld, node: str, fields: Fields) -> None:
    """Somebody deletes the Node, its pods with it: for good, or its kubelet makes it again within the pool's grace."""
    host = next((host for host in world.capacity.hosts.values() if host.node == node), None)
    if host is None or node in world.truth.lost:
        return
    world.kube.drop(NODE, node)
    if fields["back_after"] is None:
        world.truth.ask(node, Action.REPLACE)
        world.truth.lost.add(node)
        host.power = fields["power"]
        return

    def back() -> None:
        if host.phase == "Active" and node not in world.truth.lost and world.kube.peek(NODE, node) is None:
            put_node(world.kube, node, POOL, [])

    asyncio.get_running_loop().call_later(float(fields["back_after"]), back)


def _blip(world: SoakWorld, node: str, fields: Fields) -> None:
    """Agent and kubelet are silent for less than a lost node is."""
    if node in world.silent or node in world.kube.dead_nodes:
        return
    world.silent.add(node)
    world.kube.dead_nodes.add(node)

    def back() -> None:
        if node not in world.truth.lost:
            world.silent.discard(node)
            world.kube.dead_nodes.discard(node)

    later(fields, back)


def _agent_silent(world: SoakWorld, node: str, fields: Fields) -> None:
    if node in world.silent:
        return
    world.silent.add(node)
    later(fields, lambda: world.silent.discard(node) if node not in world.truth.lost else None)


def _ask(world: SoakWorld, node: str, _: Fields) -> None:
    world.truth.ask(node, Action.REPLACE)
    time = asyncio.get_running_loop().time()
    wish = {ANNOTATION_REPLACE_REQUEST: f"kim at {time:.0f}: fan noise"}
    world.change_node(node, lambda body: body["metadata"].setdefault("annotations", {}).update(wish))


def _uncordon(world: SoakWorld, node: str, _: Fields) -> None:
    world.change_node(node, lambda body: body["spec"].update(unschedulable=False))


def _veto(world: SoakWorld, node: str, fields: Fields) -> None:
    name = f"eval-{node}"
    if world.kube.peek(POD, name, "other") is None:
        world.veto(node, name)
        later(fields, lambda: gone(world, name))


def _budget_blocks(world: SoakWorld, node: str, fields: Fields) -> None:
    name = f"web-{node}"
    if world.kube.peek(POD, name, "other") is None:
        world.put_pod(name, node)
        world.kube.blocked_evictions.add(("other", name))
        later(fields, lambda: world.kube.blocked_evictions.discard(("other", name)))


def _heals(world: SoakWorld, node: str, _: Fields) -> None:
    world.faults[node] = []


def gone(world: SoakWorld, pod: str) -> None:
    if world.kube.peek(POD, pod, "other") is not None:
        world.kube.drop(POD, pod, "other")


_ON_NODES: Final[dict[str, Callable[[SoakWorld, str, Fields], None]]] = {
    "break": _break,
    "break again": _break,
    "lose": _lose,
    "remove": _remove,
    "blip": _blip,
    "agent silent": _agent_silent,
    "ask": _ask,
    "uncordon": _uncordon,
    "veto": _veto,
    "budget blocks": _budget_blocks,
    "heals": _heals,
}


# -------------------------------------------------------------------- people and spares
def _cancel(world: SoakWorld, _: Fields) -> None:
    """A person calls the newest open incident off, if that is still possible, as ``sparewheel cancel`` does."""
    found = [record for record in map(Remediation.from_wire, world.bodies()) if is_open(record)]
    if not found:
        return
    newest = max(found, key=lambda record: str(record.metadata.creation_timestamp))
    if not past_recall(newest.status):
        newest.metadata.annotations[ANNOTATION_CANCEL] = "ada at noon: a false alarm"
        world.kube.put(REMEDIATION, newest.to_wire())


def _pause(world: SoakWorld, fields: Fields) -> None:
    world.put_pool(max_concurrent_replacements=world.shape.at_once, paused=True)
    later(fields, lambda: world.put_pool(max_concurrent_replacements=world.shape.at_once))


def _spare_comes(world: SoakWorld, fields: Fields) -> None:
    add_spare(world, fit=fields["fit"])


def add_spare(world: SoakWorld, *, fit: bool = True) -> None:
    name = f"gpu-{len(world.capacity.hosts) + 51}"
    world.capacity.hosts[name] = FakeHost(name, fit=fit)
    if not fit:
        world.truth.unfit.add(name)


def make_whole(world: SoakWorld) -> None:
    """As capacity does long after: a serving host whose Node stays away, and of which no incident is made since a
    person called that off, gives its place to a spare."""
    records = world.records()
    for host in [one for one in world.capacity.hosts.values() if one.phase == "Active" and not one.owner]:
        about = [one for one in records if one.spec.node == host.node and one.spec.trigger is Trigger.NODE_REMOVED]
        called_off = any(one.status.cancelled_by for one in about) and not any(is_open(one) for one in about)
        fit = [one for one in free_spares(world) if one.fit and not one.unfit and not one.node]
        if called_off and fit and world.kube.peek(NODE, host.node) is None:
            host.phase, host.node = "Spare", ""
            fit[-1].phase, fit[-1].node = "Active", fit[-1].name
            put_node(world.kube, fit[-1].name, POOL, [])


def free_spares(world: SoakWorld) -> list[FakeHost]:
    return [host for host in world.capacity.hosts.values() if host.phase == "Spare" and not host.owner]


def _spare_goes(world: SoakWorld, _: Fields) -> None:
    for host in free_spares(world)[:1]:
        if not host.node:
            host.phase = "Quarantined"
            world.truth.unfit.add(host.name)


def _spare_ill(world: SoakWorld, _: Fields) -> None:
    for host in free_spares(world)[:1]:
        host.unfit = "it reports XID 48"
        world.truth.unfit.add(host.name)


def _spares_silent(world: SoakWorld, fields: Fields) -> None:
    hosts = [host for host in world.capacity.hosts.values() if host.phase == "Spare"]
    for host in hosts:
        host.reachable = False

    def back() -> None:
        for host in hosts:
            host.reachable = True

    later(fields, back)


# -------------------------------------------------------------------- jobs
def _submit(world: SoakWorld, fields: Fields) -> None:
    kind = JOB_KINDS[fields["job_kind"]]
    world.submit(int(fields["job"]), int(fields["size"]), save_seconds=float(fields["save_seconds"]), **kind)


def _end(world: SoakWorld, job: MemoryJob, exit_code: int) -> None:
    world.slurm.end_job(job.job_id, exit_code)
    world.truth.ended(job.job_id)


def _job_ends(world: SoakWorld, fields: Fields) -> None:
    job = world.slurm.job_table.get(int(fields["job"]))
    if job is not None and job.state == "RUNNING":
        _end(world, job, int(fields["exit_code"]))


def _ranks_hang(world: SoakWorld, fields: Fields) -> None:
    """The job's ranks answer no signal where they are struck, until somebody ends them."""
    job = world.slurm.job_table.get(int(fields["job"]))
    if job is None:
        return
    job.hangs = True

    def end() -> None:
        job.hangs = False
        for node in world.slurm.node_table.values():
            node.left.pop(job.job_id, None)

    later(fields, end)


def _cancel_job(world: SoakWorld, fields: Fields) -> None:
    job = world.slurm.job_table.get(int(fields["job"]))
    if job is not None and job.state in {"RUNNING", "PENDING"}:
        world.slurm.cancel(job.job_id)


_ELSE: Final[dict[str, Callable[[SoakWorld, Fields], None]]] = {
    "cancel": _cancel,
    "pause": _pause,
    "spare comes": _spare_comes,
    "spare goes": _spare_goes,
    "spare ill": _spare_ill,
    "spares silent": _spares_silent,
    "submit": _submit,
    "job ends": _job_ends,
    "cancel job": _cancel_job,
    "ranks hang": _ranks_hang,
}
