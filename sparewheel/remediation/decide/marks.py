"""What a cordon writes on the Node, in the same compare-and-swap: whose it is, and what of it is ours. Pure.

The mark is the cordon's journal: it is there exactly when the cordon is, so none has to be written before it.
"""

from __future__ import annotations

from dataclasses import dataclass

from sparewheel.api.names import ANNOTATION_OWNED, ANNOTATION_REMEDIATION, TAINT_FAULT
from sparewheel.api.remediation import Remediation, RemediationStatus
from sparewheel.remediation.decide.observations import NodeView
from sparewheel.remediation.decide.record import Change, copy

_CORDON, _TAINT = "cordon", "fault-taint"


@dataclass(frozen=True, slots=True)
class Mark:
    """What this incident brought to the Node, and so takes back: a cordon or a taint of others stays theirs."""

    cordon: bool = False
    fault_taint: bool = False

    @property
    def text(self) -> str:
        return " ".join(word for word, ours in ((_CORDON, self.cordon), (_TAINT, self.fault_taint)) if ours)


def marked(remediation: Remediation, node: NodeView) -> bool:
    """Does the Node carry this incident's name?"""
    return node.annotations.get(ANNOTATION_REMEDIATION) == remediation.metadata.name


def mark_of(remediation: Remediation, node: NodeView) -> Mark:
    """What the Node says is ours, or where it carries our name alone, the record: so an older controller cordoned."""
    if not marked(remediation, node):
        return Mark()
    text, journalled = node.annotations.get(ANNOTATION_OWNED), remediation.status.owned
    if text is None:
        return Mark(journalled.cordon, journalled.fault_taint)
    return Mark(_CORDON in text.split(), _TAINT in text.split())


def our_cordon(remediation: Remediation, node: NodeView) -> bool:
    """Is the cordon ours, or was it, so that a Node without one was uncordoned by a person?"""
    return remediation.status.owned.cordon or mark_of(remediation, node).cordon


def mark_to_write(remediation: Remediation, node: NodeView) -> Mark:
    """What is ours once this incident has cordoned and tainted the Node as it stands."""
    before = mark_of(remediation, node)
    return Mark(before.cordon or not node.unschedulable, before.fault_taint or TAINT_FAULT not in node.taints)


def owned(mark: Mark) -> Change:
    """The record says what the Node says."""

    def change(status: RemediationStatus) -> RemediationStatus:
        new = copy(status)
        new.owned.cordon, new.owned.fault_taint = mark.cordon, mark.fault_taint
        return new

    return change
