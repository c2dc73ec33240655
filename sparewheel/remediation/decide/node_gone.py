"""The struck Node is gone by somebody else's hand, for good or with another machine under its name. Pure."""

from __future__ import annotations

from sparewheel.api.remediation import Remediation, Trigger
from sparewheel.remediation.decide.node_step import HOLD_SECONDS, NodeAction, NodeStep, Todo, wait_for
from sparewheel.remediation.decide.observations import Observations
from sparewheel.remediation.decide.slurm_return import may_restore
from sparewheel.remediation.decide.treated import on_hold


def removed_by_others(remediation: Remediation, *, gone: bool) -> NodeStep:
    """Its pods are gone with it, but a Slurm node that we struck is still ours to bring back, and the host is bad."""
    removed = remediation.spec.trigger is Trigger.NODE_REMOVED
    if (gone or removed) and remediation.status.replacement.claimed_at is not None:
        return NodeStep((Todo(NodeAction.DRAINED, why="the node was removed by somebody else"),))
    if removed and on_hold(remediation):
        return NodeStep((Todo(NodeAction.HOLD),), f"a person: {remediation.spec.hold}", HOLD_SECONDS)
    if removed:
        return wait_for(remediation.status.replacement.message or "a spare", 2.0)
    if remediation.status.owned.slurm_down:
        return wait_for("the new worker pod's slurmd to register (the node was removed by somebody else)", 2.0)
    return NodeStep((Todo(NodeAction.SUPERSEDE, why="the node was removed by somebody else"),))


def taken_by_another(remediation: Remediation, seen: Observations) -> NodeStep:
    """The struck machine is gone and there is nothing to retire: its Slurm node serves on the new one, or on the spare.

    A spare that is claimed comes into service first.
    """
    status, why = remediation.status, "another machine took the node's name"
    if status.replacement.claimed_at is not None and status.replacement.admitted_at is None:
        return wait_for(status.replacement.message or "the spare to be checked")
    if may_restore(remediation, seen.slurm_node, seen.successors):
        return NodeStep((Todo(NodeAction.RESTORE_SLURM),))
    if status.owned.slurm_down and not status.owned.foreign_reason:
        return wait_for(f"the new worker pod's slurmd to register ({why})", 0.5)
    return NodeStep((Todo(NodeAction.SUPERSEDE, why=why),))
