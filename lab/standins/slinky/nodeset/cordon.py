"""Cordoned Kubernetes node <-> drained Slurm node: who may change what, and with which reason.

A Slurm reason that doesn't start with ``slurm-operator:`` is somebody else's: the operator then touches neither pod nor
Slurm node. It doesn't either where Slurm holds the node DOWN for not responding, or doesn't know it.
"""

from __future__ import annotations

import unicodedata
from typing import Final, Literal, NamedTuple

from lab.standins.slinky import names
from lab.standins.slinky.nodeset import pods
from lab.standins.slinky.objects import Obj, annotations_of, dig
from lab.standins.slinky.slurm_rest import SlurmNode

_REASON_LENGTH: Final = 256


class Step(NamedTuple):
    """What to do with a pod and its Slurm node; ``source`` says why the pod is cordoned (see ``pods``)."""

    do: Literal["drain", "undrain"]
    reason: str
    override: bool = False
    source: str = ""


class NodeUpdate(NamedTuple):
    """A state and reason to write to Slurm."""

    state: str
    reason: str


def is_ours(slurm: SlurmNode) -> bool:
    """True if the operator wrote the node's reason, or nobody did."""
    return not slurm.reason or slurm.reason.startswith(names.REASON_PREFIX)


def clean_reason(text: str) -> str:
    """A node annotation made fit for a Slurm reason: one line, no control characters, at most 256 characters."""
    spaced = "".join(" " if letter in "\t\n\r" else letter for letter in text)
    kept = "".join(letter for letter in spaced if unicodedata.category(letter) != "Cc").strip()
    return kept[:_REASON_LENGTH].strip()


def cordon_step(pod: Obj, node: Obj | None, slurm: SlurmNode | None) -> Step | None:
    """What a look at the pod's host asks for; None for nothing."""
    if node is None or slurm is None or not is_ours(slurm):
        return None
    if "DOWN" in slurm.states and "Not responding" in slurm.reason:
        return None
    label = pods.label(pod)
    if dig(node, "spec", "unschedulable", default=False):
        given = annotations_of(node).get(names.NODE_CORDON_REASON)
        default = f"Node ({pods.host(pod)}) was cordoned, Pod ({label}) must be cordoned"
        return Step("drain", clean_reason(given) if given is not None else default, source="node")
    if pods.is_cordoned(pod) and pods.cordon_source(pod) != "node":
        return Step("drain", f"Pod ({label}) was cordoned", source=pods.cordon_source(pod))
    return Step("undrain", f"Pod ({label}) was uncordoned")


def drain_update(slurm: SlurmNode, reason: str, *, override: bool) -> NodeUpdate | None:
    """The write that drains a node; None if it is drained already and its reason stays.

    A reason that is there is kept unless ``override``.
    """
    wanted = f"{names.REASON_PREFIX} {reason or 'unknown'}"
    if slurm.reason and not override:
        wanted = slurm.reason
    if "DRAIN" in slurm.states and "UNDRAIN" not in slurm.states and slurm.reason == wanted:
        return None
    return NodeUpdate("DRAIN", wanted)


def undrain_update(slurm: SlurmNode, reason: str) -> NodeUpdate | None:
    """The write that takes a drain back; None if the node isn't drained or is just being undrained."""
    if "DRAIN" not in slurm.states or "UNDRAIN" in slurm.states:
        return None
    return NodeUpdate("UNDRAIN", f"{names.REASON_PREFIX} {reason}" if reason else "")


def is_drained(slurm: SlurmNode | None) -> bool:
    """Drained and idle; a node that Slurm doesn't know counts as drained (the real operator's rule)."""
    if slurm is None:
        return True
    return "DRAIN" in slurm.states and "UNDRAIN" not in slurm.states and not slurm.busy
