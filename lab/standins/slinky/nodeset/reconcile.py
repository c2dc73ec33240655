"""One look at a NodeSet, in the real operator's order: cordon, pods, records, topology, rollout, status."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Iterable
from dataclasses import dataclass
from typing import Final

from lab.standins.slinky import names
from lab.standins.slinky.builders import ssh, worker
from lab.standins.slinky.context import Context
from lab.standins.slinky.kube import KubeError
from lab.standins.slinky.nodeset import actions, cordon, pods, scaling, status
from lab.standins.slinky.objects import (
    Obj,
    annotations_of,
    by_key,
    checksum,
    controller_of,
    dig,
    is_deleting,
    name_of,
    namespace_of,
    uid_of,
)
from lab.standins.slinky.pace import STATUS_RESYNC_SECONDS
from lab.standins.slinky.slurm_rest import RunningJob, SlurmNode, SlurmRest

log: Final = logging.getLogger(__name__)


@dataclass
class Look:
    """What one look at a NodeSet knows. ``nodes`` is empty where there is no slurmrestd."""

    ctx: Context
    nodeset: Obj
    controller: Obj
    slurm: SlurmRest | None
    nodes: dict[str, SlurmNode]
    jobs: list[RunningJob]
    rechecks: actions.Rechecks

    def pods(self) -> list[Obj]:
        """The NodeSet's pods in the newest known state, those being deleted too."""
        out: list[Obj] = []
        for pod in self.ctx.store.all("Pod", namespace_of(self.nodeset)):
            owner = controller_of(pod)
            if owner is not None and owner.get("uid") == uid_of(self.nodeset):
                out.append(pod)
        return sorted(out, key=pods.ordinal)

    def record(self, pod: Obj) -> SlurmNode | None:
        """The pod's node in Slurm."""
        return self.nodes.get(pods.slurm_name(pod))


async def reconcile(ctx: Context, nodeset: Obj, rechecks: actions.Rechecks) -> float | None:
    """Bring one NodeSet up to date; returns the seconds until the next look."""
    unsupported = [what for what, used in _unsupported(nodeset["spec"]).items() if used]
    if unsupported:
        message = f"the stand-in doesn't serve spec.{', spec.'.join(unsupported)}; no pod is made or changed"
        conditions = ctx.conditions(nodeset, [("StandInUnsupported", True, "NotServed", message)])
        # The schema wants these two in every status.
        required = {"nodeSetHash": worker.revision(nodeset), "selector": worker.selector(nodeset)}
        await ctx.set_status(nodeset, {"conditions": conditions, **required})
        await ctx.event(nodeset, "NodeSet", "NotServed", message, warning=True)
        return None
    controller = ctx.controller(nodeset)
    slurm = ctx.slurm(controller)
    await _shared_objects(ctx, nodeset)
    # Without fresh records nothing is decided: a failed look-up raises here and is repeated.
    nodes = await slurm.nodes() if slurm else {}
    jobs = await slurm.running_jobs() if slurm else []
    look = Look(ctx, nodeset, controller, slurm, nodes, jobs, rechecks)
    await _deadlines(look)
    await _cordon(look)
    if not await _scale(look):
        await _process(look)
    await _unregistered(look)
    await _topology(look)
    await _rollout(look)
    await _status(look)
    return STATUS_RESYNC_SECONDS


def _unsupported(spec: Obj) -> dict[str, bool]:
    return {
        "scalingMode=DaemonSet": spec.get("scalingMode") == "DaemonSet",
        "volumeClaimTemplates": bool(spec.get("volumeClaimTemplates")),
        "pinToNode": bool(spec.get("pinToNode", False)),
        "updateStrategy.type=ScheduledUpdate": dig(spec, "updateStrategy", "type") == "ScheduledUpdate",
    }


async def _shared_objects(ctx: Context, nodeset: Obj) -> None:
    """The cluster's worker Service and disruption budget, and this NodeSet's sshd_config."""
    namespace = namespace_of(nodeset)
    cluster = dig(nodeset, "spec", "controllerRef", "name", default="")
    peers = [one for one in ctx.store.all("NodeSet", namespace) if dig(one, "spec", "controllerRef", "name") == cluster]
    await ctx.apply(worker.worker_service(cluster, namespace, peers))
    await ctx.apply(worker.worker_pdb(cluster, namespace, peers))
    if dig(nodeset, "spec", "ssh", "enabled", default=False):
        await ctx.apply(ssh.config_map(nodeset, worker.KIND, worker.labels(nodeset)))


async def _each(work: Iterable[Awaitable[None]]) -> None:
    """Do it for every pod at once; the first failure is raised after all have ended."""
    results = await asyncio.gather(*work, return_exceptions=True)
    for one in results:
        if isinstance(one, BaseException):
            raise one


async def _deadlines(look: Look) -> None:
    if look.slurm is None:
        return
    for pod in look.pods():
        note = actions.deadline_note(pods.slurm_name(pod), look.jobs)
        if annotations_of(pod).get(names.POD_DEADLINE) != note:
            await look.ctx.patch(pod, {"metadata": {"annotations": {names.POD_DEADLINE: note}}})


async def _cordon(look: Look) -> None:
    async def one(pod: Obj) -> None:
        node = look.ctx.store.get("Node", "", pods.host(pod)) if pods.host(pod) else None
        step = cordon.cordon_step(pod, node, look.record(pod))
        if step is None:
            return
        if step.do == "undrain":
            await actions.uncordon(look.ctx, look.slurm, pod, look.record(pod), step.reason)
            return
        if step.source == "node":
            message = f"Cordoning Pod {pods.label(pod)}: Kubernetes node {pods.host(pod)} was cordoned"
            await look.ctx.event(look.nodeset, "NodeSet", "NodeCordon", message)
        await actions.condemn(look.ctx, look.slurm, pod, look.record(pod), step)

    await _each(one(pod) for pod in look.pods())


async def _scale(look: Look) -> bool:
    """Make missing pods or let some go; False if the number is right."""
    replicas = dig(look.nodeset, "spec", "replicas", default=1)
    plan = scaling.plan(replicas, look.pods())
    if plan.create:
        message = f"Creating {len(plan.create)} Pod(s) to stabilize at {replicas} replicas"
        await look.ctx.event(look.nodeset, "NodeSet", "ScalingUp", message)
        await _each(_create(look, ordinal) for ordinal in plan.create)
        return True
    if plan.condemn:
        message = f"Deleting {len(plan.condemn)} Pod(s) to stabilize at {replicas} replicas"
        await look.ctx.event(look.nodeset, "NodeSet", "ScalingDown", message)
        await _each(_let_go(look, pod, "scale-in") for pod in plan.condemn)
        return True
    return False


async def _create(look: Look, ordinal: int) -> None:
    hashes: dict[str, str] = {names.SSHD_CONF_HASH: checksum(""), names.SSSD_CONF_HASH: checksum("")}
    if dig(look.nodeset, "spec", "ssh", "enabled", default=False):
        namespace, ref = namespace_of(look.nodeset), look.nodeset["spec"]["ssh"]["sssdConfRef"]
        config = look.ctx.store.get("ConfigMap", namespace, names.ssh_config(name_of(look.nodeset)))
        hashes[names.SSHD_CONF_HASH] = checksum(str(dig(config, "data", "sshd_config", default="")))
        secret = look.ctx.secret_contents(namespace, ref.get("name", ""))
        hashes[names.SSSD_CONF_HASH] = checksum(secret.get(ref["key"], ""))
    pod = worker.pod(look.nodeset, look.controller, ordinal, hashes)
    try:
        made = await look.ctx.kube.create(pod)
    except KubeError as error:
        if error.code == 409:
            return  # the pod is there already and its event is on the way
        raise
    made["kind"] = "Pod"
    look.ctx.store.put(made)


async def _let_go(look: Look, pod: Obj, why: str) -> None:
    await actions.let_go(look.ctx, look.slurm, pod, look.record(pod), why, look.rechecks)


async def _process(look: Look) -> None:
    """The number is right: take back an operator's own condemnation, and delete pods that have ended."""
    rollout = _rollout_plan(look)
    await _each(
        actions.keep(look.ctx, look.slurm, pod, look.record(pod)) for pod in rollout.keep if not is_deleting(pod)
    )
    for pod in look.pods():
        if pods.phase(pod) in {"Failed", "Succeeded"} and not is_deleting(pod):
            await look.ctx.kube.delete(pod)


async def _unregistered(look: Look) -> None:
    """A healthy pod that Slurm doesn't know is made again."""
    if look.slurm is None:
        return
    minimum = dig(look.nodeset, "spec", "minReadySeconds", default=0)
    for pod in look.pods():
        known = look.record(pod) is not None
        if known or not pods.is_healthy(pod) or not pods.is_available(pod, minimum, look.ctx.clock.now()):
            continue
        message = f"Deleting Pod {pods.label(pod)}: Slurm node is not registered but pod is healthy"
        await look.ctx.event(look.nodeset, "NodeSet", "SlurmNodeNotRegistered", message, warning=True)
        await look.ctx.kube.delete(pod)


async def _topology(look: Look) -> None:
    """The host's topology annotation goes to the pod and to Slurm."""
    for pod in look.pods():
        node = look.ctx.store.get("Node", "", pods.host(pod)) if pods.host(pod) else None
        if node is None:
            continue
        wanted = annotations_of(node).get(names.TOPOLOGY_SPEC, "")
        before = annotations_of(pod).get(names.TOPOLOGY_SPEC, "")
        if before != wanted:
            await look.ctx.patch(pod, {"metadata": {"annotations": {names.TOPOLOGY_SPEC: wanted}}})
        record = look.record(pod)
        if look.slurm and record is not None and (wanted or before) and record.topology != wanted:
            await look.slurm.update_node(record.name, topology_str=wanted)


def _rollout_plan(look: Look) -> scaling.Rollout:
    spec: Obj = look.nodeset["spec"]
    held = look.pods()
    if dig(spec, "updateStrategy", "type", default="RollingUpdate") == "OnDelete":
        return scaling.Rollout([], held)
    return scaling.rollout(
        held,
        worker.revision(look.nodeset),
        spec.get("replicas", 1),
        dig(spec, "updateStrategy", "rollingUpdate", "maxUnavailable", default="25%"),
        spec.get("minReadySeconds", 0),
        look.ctx.clock.now(),
    )


async def _rollout(look: Look) -> None:
    plan = _rollout_plan(look)
    if plan.condemn:
        message = f"Rolling update: replacing {len(plan.condemn)} old pod(s) with updated revision"
        await look.ctx.event(look.nodeset, "NodeSet", "RollingUpdate", message)
        await _each(_let_go(look, pod, "scale-in") for pod in plan.condemn)


async def _status(look: Look) -> None:
    """Comments in Slurm, pod conditions and protection, the NodeSet's status: from records read again."""
    if look.slurm is not None:
        look.nodes = await look.slurm.nodes()
        await _each(_comment(look, pod) for pod in look.pods())
    protect = dig(look.nodeset, "spec", "workloadDisruptionProtection", default=True)
    now = look.ctx.clock.now()
    await _each(
        actions.show(look.ctx, pod, look.record(pod), now, protect=protect) for pod in look.pods() if look.slurm
    )
    nodes = look.nodes if look.slurm else None
    new = status.nodeset_status(look.nodeset, look.pods(), nodes, worker.revision(look.nodeset), now)
    new["conditions"] = look.ctx.conditions(look.nodeset, [], drop=["StandInUnsupported"])
    newest = look.ctx.store.get("NodeSet", namespace_of(look.nodeset), name_of(look.nodeset))
    await look.ctx.set_status(newest or look.nodeset, new)
    look.rechecks.forget_all_but({uid_of(pod) for pod in by_key(look.pods()).values()})


async def _comment(look: Look, pod: Obj) -> None:
    record = look.record(pod)
    if look.slurm is None or record is None or not pods.is_healthy(pod):
        return
    update = status.comment_update(look.nodeset, pod, record)
    if update is None:
        return
    await look.slurm.update_node(record.name, comment=update.comment)
    if update.moved:
        log.info("%s: pod is on another host now, setting IDLE", record.name)
        await look.slurm.update_node(record.name, state=["IDLE"])
