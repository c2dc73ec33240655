"""A person calls an incident off: what they said, and whether it is still possible. Pure."""

from __future__ import annotations

from dataclasses import dataclass

from sparewheel.api.names import ANNOTATION_CANCEL
from sparewheel.api.remediation import Outcome, Remediation, RemediationStatus
from sparewheel.remediation.decide.marks import our_cordon
from sparewheel.remediation.decide.observations import NodeView
from sparewheel.remediation.decide.record import Change, copy, is_open

BY_UNCORDON = "uncordon"


@dataclass(frozen=True, slots=True)
class CallOff:
    """Who called it off and why. ``by`` is ``uncordon`` where a person took the cordon off, whoever that was."""

    by: str
    why: str

    @property
    def words(self) -> str:
        return f"by {self.by}: {self.why}"


def past_recall(status: RemediationStatus) -> str:
    """Why the incident can't be called off any more; empty while it can."""
    if status.ladder.mended_at is not None or status.recovered_at is not None:
        return "the node is well again and is being given back already"
    if status.replacement.admitted_at is not None:
        return f"spare {status.replacement.spare_host} serves in the node's place already"
    if status.replacement.worker_deleted_at is not None:
        return "the node's worker pod was deleted already"
    return ""


def called_off(by: str, why: str) -> Change:
    """It ends so, whatever comes. Said once, and not where another track has gone past recall meanwhile."""

    def change(status: RemediationStatus) -> RemediationStatus:
        if status.outcome is not Outcome.OPEN or status.cancelled_by or past_recall(status):
            return status
        new = copy(status)
        new.cancelled_by, new.cancelled_why = by, why
        return new

    return change


def asked_to_cancel(remediation: Remediation) -> CallOff | None:
    """The wish written on this record; a wish on another record, of the same node too, is none of its business.

    One that is journalled is being done already: nothing comes too late for it any more.
    """
    status = remediation.status
    if status.cancelled_by and is_open(remediation):
        return CallOff(status.cancelled_by, status.cancelled_why)
    text = remediation.metadata.annotations.get(ANNOTATION_CANCEL, "")
    if not text or not is_open(remediation) or past_recall(remediation.status):
        return None
    by, _, why = text.partition(": ")
    return CallOff(by, why or "no reason given")


def uncordoned(remediation: Remediation, node: NodeView) -> CallOff | None:
    status = remediation.status
    if our_cordon(remediation, node) and not node.unschedulable and not past_recall(status):
        return CallOff(BY_UNCORDON, f"node {node.name} was uncordoned by a person")
    return None
