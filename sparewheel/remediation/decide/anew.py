"""A struck node's Node was removed and registers anew under another uid: the host is the same, and still bad. Pure."""

from __future__ import annotations

from sparewheel.api.remediation import Remediation, Trigger
from sparewheel.remediation.decide.marks import marked
from sparewheel.remediation.decide.observations import NodeView


def about(remediation: Remediation, node: NodeView) -> bool:
    """Is it the Node that the incident was opened for, or one after it that the incident has cordoned as well?"""
    return node.uid == remediation.spec.node_uid or marked(remediation, node)


def another_machine(remediation: Remediation, node: NodeView) -> bool:
    """Did another machine take the struck one's name? What is wrong with it would be an incident of its own."""
    before = remediation.spec.provider_id
    return bool(before and node.provider_id) and node.provider_id != before and not marked(remediation, node)


def registered_anew(remediation: Remediation, node: NodeView) -> bool:
    """A Node that nothing keeps pods from yet, although the incident goes on: it struck the host, or holds a spare.

    Else it ends, and what is wrong with the new Node is an incident of its own. Asked once the node is fenced.
    """
    status = remediation.status
    if about(remediation, node) or another_machine(remediation, node) or status.replacement.quarantined_at is not None:
        return False
    removed = remediation.spec.trigger is Trigger.NODE_REMOVED  # there was no Node to cordon
    return removed or bool(status.owned.slurm_down) or status.replacement.claimed_at is not None
