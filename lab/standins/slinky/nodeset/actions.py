"""Single acts on a pod and its Slurm node."""

from __future__ import annotations

import logging
from datetime import datetime
from typing import Final

from lab.standins.slinky import names
from lab.standins.slinky.context import Context
from lab.standins.slinky.kube import STRATEGIC
from lab.standins.slinky.nodeset import cordon, pods, status
from lab.standins.slinky.objects import Obj, dig, format_time, is_deleting, labels_of, uid_of
from lab.standins.slinky.pace import DRAIN_RECHECK_SECONDS
from lab.standins.slinky.slurm_rest import RunningJob, SlurmNode, SlurmRest

log: Final = logging.getLogger(__name__)
_NEVER: Final = "9999-12-31T23:59:59Z"


class Rechecks:
    """When pods that must go are asked again whether they are drained; monotonic seconds by pod UID."""

    def __init__(self) -> None:
        self._due: dict[str, float] = {}

    def is_due(self, uid: str, now: float) -> bool:
        """True if the pod may be asked now."""
        return now >= self._due.get(uid, now)

    def asked(self, uid: str, now: float) -> None:
        """The pod was asked and isn't drained: again at the next look, where an idle node has drained, then later.

        The real operator's own change to the pod makes it look again at once; after that only its timer does.
        """
        self._due[uid] = now + DRAIN_RECHECK_SECONDS if uid in self._due else now

    def forget_all_but(self, uids: set[str]) -> None:
        """Drop pods that are gone."""
        self._due = {uid: due for uid, due in self._due.items() if uid in uids}


def deadline_note(node: str, jobs: list[RunningJob]) -> str | None:
    """When the last running job on a node must end, as the pod's annotation says it; None for no job."""
    held = [job for job in jobs if node in job.nodes]
    if not held:
        return None
    ends = [job.deadline for job in held]
    return _NEVER if None in ends else format_time(max(end for end in ends if end is not None))


async def condemn(ctx: Context, slurm: SlurmRest | None, pod: Obj, record: SlurmNode | None, step: cordon.Step) -> None:
    """Cordon the pod and drain its Slurm node."""
    if not pods.is_cordoned(pod) or pods.cordon_source(pod) != step.source:
        notes = {names.POD_CORDON: "true", pods.CORDON_SOURCE: step.source or None}
        await ctx.patch(pod, {"metadata": {"annotations": notes}})
    if slurm is None or record is None:
        return
    update = cordon.drain_update(record, step.reason, override=step.override)
    if update is not None:
        await slurm.update_node(record.name, state=[update.state], reason=update.reason)


async def uncordon(ctx: Context, slurm: SlurmRest | None, pod: Obj, record: SlurmNode | None, reason: str) -> None:
    """Take the cordon off the pod and the drain off its Slurm node."""
    if pods.is_cordoned(pod):
        notes = {names.POD_CORDON: None, pods.CORDON_SOURCE: None}
        await ctx.patch(pod, {"metadata": {"annotations": notes}})
    if slurm is None or record is None:
        return
    update = cordon.undrain_update(record, reason)
    if update is not None:
        await slurm.update_node(record.name, state=[update.state], reason=update.reason)


async def keep(ctx: Context, slurm: SlurmRest | None, pod: Obj, record: SlurmNode | None) -> None:
    """A pod that was to go may stay: undo what ``let_go`` did."""
    if pods.cordon_source(pod) != "termination":
        return
    node = ctx.store.get("Node", "", pods.host(pod))
    if dig(node, "spec", "unschedulable", default=False) or (record is not None and not cordon.is_ours(record)):
        return
    await uncordon(ctx, slurm, pod, record, "")


async def let_go(
    ctx: Context, slurm: SlurmRest | None, pod: Obj, record: SlurmNode | None, why: str, rechecks: Rechecks
) -> None:
    """Drain, and delete once drained. Without slurmrestd every node counts as drained (the real operator's rule)."""
    now = ctx.clock.monotonic_seconds()
    if is_deleting(pod) or not rechecks.is_due(uid_of(pod), now):
        return
    if slurm is None or cordon.is_drained(record):
        log.info("deleting pod %s for %s", pods.label(pod), why)
        await ctx.kube.delete(pod)
        return
    rechecks.asked(uid_of(pod), now)
    reason = f"Pod ({pods.label(pod)}) is pending termination for {why}"
    await condemn(ctx, slurm, pod, record, cordon.Step("drain", reason, override=True, source="termination"))


async def show(ctx: Context, pod: Obj, record: SlurmNode | None, now: datetime, *, protect: bool) -> None:
    """Put the Slurm state on the pod: conditions, and the label that the disruption budget selects."""
    patch = status.condition_patch(pod, record, now)
    if patch is not None:
        pod = await ctx.patch(pod, patch, subresource="status", content_type=STRATEGIC)
    busy = protect and record is not None and record.busy
    if busy != (labels_of(pod).get(names.POD_PROTECT) == "true"):
        await ctx.patch(pod, {"metadata": {"labels": {names.POD_PROTECT: "true" if busy else None}}})
