"""When the Slurm node of an incident that is called off after its strike may come back: once no rank is left. Pure.

Slurm waits for no rank on a node that it was told is DOWN. A job that comes back to one that still has a rank of its
last attempt is refused there ("Duplicate jobid", seen on 26.05): the node drains, and the job hangs. Slurm itself waits
for the ranks of a node that is only drained.
"""

from __future__ import annotations

from typing import Final

from sparewheel.api.remediation import FenceKind, Remediation
from sparewheel.remediation.decide.cancel import CallOff
from sparewheel.remediation.decide.drain import grace_left_seconds, nobody_left, processes_left, saving_words
from sparewheel.remediation.decide.node_step import NodeAction, NodeStep, Situation, Todo
from sparewheel.remediation.decide.observations import Gone, HealthView, Observations, SlurmNodeView, Unknown
from sparewheel.remediation.decide.slurm_return import foreign, may_restore

LOOK_SECONDS: Final = 1.0
LATE_LOOK_SECONDS: Final = 5.0


def wait_for_ranks(
    remediation: Remediation, seen: Observations, situation: Situation, wish: CallOff
) -> NodeStep | None:
    """What is done and waited for first; None where the Slurm node may come back now.

    The wish is journalled and the spare given back before the wait, so that nothing goes on meanwhile.
    """
    waits = _waits(remediation, seen, situation)
    if waits is None:
        return None
    record = remediation.status.replacement
    holds = record.spare_host is not None and record.admitted_at is None
    if holds or not remediation.status.cancelled_by:
        return NodeStep((Todo(NodeAction.LET_GO, call_off=wish),), waits.waiting_for)
    return waits


def _waits(remediation: Remediation, seen: Observations, situation: Situation) -> NodeStep | None:
    if not _stays_down(remediation, seen):
        return None
    health = seen.health if isinstance(seen.health, HealthView) else None
    if nobody_left(remediation, health):
        return None
    if isinstance(seen.slurm_node, Unknown):
        return NodeStep((), f"the look-up of the Slurm node ({seen.slurm_node.error})", LOOK_SECONDS)
    name = remediation.spec.slurm_node
    left = grace_left_seconds(remediation, situation.now, seen.fenced_seconds_ago)
    if left > 0:
        words = saving_words(remediation, health)
        return NodeStep((), f"{words}; then Slurm node {name} comes back (called off)", min(LOOK_SECONDS, left))
    listed = processes_left(health)
    what = f"{listed} to end" if listed else f"word of the agent on {remediation.spec.node} that no job process is left"
    words = f"{what}, after the grace; Slurm node {name} stays down until then, or a person resumes it (called off)"
    ask = () if listed else (Todo(NodeAction.PROVE_OFF),)
    return NodeStep((*ask, Todo(NodeAction.TELL_LEFT)), words, LATE_LOOK_SECONDS)


def _stays_down(remediation: Remediation, seen: Observations) -> bool:
    """Is it ours to bring back, on the host where it was struck? A rung is taken only once nobody is left."""
    status, slurm = remediation.status, seen.slurm_node
    if status.fence is not FenceKind.DOWN or not status.owned.slurm_down or status.ladder.rungs:
        return False
    if isinstance(slurm, Gone) or isinstance(seen.node, Gone) or may_restore(remediation, slurm, seen.successors):
        return False
    return not isinstance(slurm, SlurmNodeView) or ("DOWN" in slurm.states and not foreign(slurm))
