"""When the struck Slurm node may be brought back: another instance has registered, and the state is ours to clear."""

from __future__ import annotations

import re

from sparewheel.api.names import SLURM_REASON_PREFIX
from sparewheel.api.remediation import Remediation
from sparewheel.remediation.decide.observations import Gone, PodView, SlurmNodeView, Unknown

SLINKY_PREFIX = "slurm-operator:"
_UNCORDONED = "was uncordoned"
_SLINKY_MOVES = ("pod is terminating", _UNCORDONED)
"""What Slinky writes when the pod that we deleted goes, and when its successor comes up on a node without a cordon."""
_SILENT = "not responding"
_REBOOTED = "node unexpectedly rebooted"
_CHECKS = ("epilog error", "prolog error")
"""Slurm's own words where a check of the node failed: the agent had seen the fault before the node was struck."""
_SLURMS = (_SILENT, _REBOOTED, *_CHECKS)


def reason_is_ours(reason: str, incident: str) -> bool:
    """Ours, Slinky's word for the pod that we deleted or the cordon that we made, Slurm's own, or none."""
    text = reason.strip().lower()
    if not text or text.startswith(_SLURMS):
        return True
    if text.startswith(SLURM_REASON_PREFIX):
        return names_incident(text, incident)
    return moved_by_slinky(text) or (text.startswith(SLINKY_PREFIX) and names_incident(text, incident))


def names_incident(reason: str, incident: str) -> bool:
    """As a whole word: one incident's name may be the beginning or the end of another's."""
    return re.search(rf"(?<![\w.-]){re.escape(incident.lower())}(?![\w.-])", reason.lower()) is not None


def moved_by_slinky(reason: str) -> bool:
    """The pod before this one was ended, or its host's cordon was taken off."""
    text = reason.strip().lower()
    return text.startswith(SLINKY_PREFIX) and any(words in text for words in _SLINKY_MOVES)


def uncordoned_by_slinky(reason: str) -> bool:
    """Its drain was taken back; whatever else keeps the node out of service is older."""
    return moved_by_slinky(reason) and _UNCORDONED in reason.lower()


def slurm_reason(incident: str, words: str) -> str:
    """``sparewheel: XID 79 on GPU 3 (name of the record)``."""
    return f"{SLURM_REASON_PREFIX} {words} ({incident})"


def foreign(node: SlurmNodeView) -> str:
    """Somebody else's reason for a node that is already out of service; such a node is theirs to bring back."""
    out = node.states & {"DOWN", "DRAIN", "FAIL"}
    text = node.reason.strip().lower()
    known = not text or text.startswith((SLINKY_PREFIX, SLURM_REASON_PREFIX, *_SLURMS))
    return "" if not out or known else node.reason


def may_restore(
    remediation: Remediation,
    slurm: SlurmNodeView | Gone | Unknown | None,
    successors: tuple[PodView, ...] | Unknown,
) -> bool:
    """Another instance serves under the name, and nobody else has spoken since the strike."""
    if not isinstance(slurm, SlurmNodeView) or not _came_back(remediation, slurm, successors):
        return False
    return reason_is_ours(slurm.reason, remediation.metadata.name)


def taken_over_by(
    remediation: Remediation,
    slurm: SlurmNodeView | Gone | Unknown | None,
    successors: tuple[PodView, ...] | Unknown,
) -> str:
    """The reason of somebody who took the Slurm node out of service after our strike: it is theirs to bring back."""
    if not isinstance(slurm, SlurmNodeView) or not _came_back(remediation, slurm, successors):
        return ""
    return foreign(slurm)


def _came_back(remediation: Remediation, slurm: SlurmNodeView, successors: tuple[PodView, ...] | Unknown) -> bool:
    """Another pod (other uid, other node) is there and its slurmd has registered."""
    owned = remediation.status.owned
    if not owned.slurm_down or owned.foreign_reason or owned.slurm_struck_at is None:
        return False
    if isinstance(successors, Unknown) or slurm.name not in owned.slurm_down:
        return False
    successor = any(
        pod.uid != remediation.spec.worker_pod_uid and pod.node_name and not pod.deleting and not pod.finished
        for pod in successors
    )
    started = slurm.slurmd_start_time
    anew = started is not None and started != owned.slurmd_started_before
    return successor and anew and slurm.registered
