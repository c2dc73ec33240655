"""Is a node that stayed in the cluster well again? Its faults gone, said afresh, all GPUs there and on offer. Pure."""

from __future__ import annotations

from sparewheel.api.remediation import Remediation
from sparewheel.remediation.decide.drain import FRESH_SECONDS
from sparewheel.remediation.decide.observations import HealthView, NodeView, Unknown
from sparewheel.remediation.decide.policy import ACTING
from sparewheel.remediation.decide.treated import faults_of


def unheard(health: HealthView | Unknown | None) -> str:
    """Empty when the node's agent has just said how it is."""
    if not isinstance(health, HealthView):
        return "no report of the node"
    if not health.heard_since_fence or health.heard_seconds_ago > FRESH_SECONDS:
        return "no fresh report of the node"
    return ""


def not_well(remediation: Remediation, node: NodeView, health: HealthView | Unknown | None) -> str:
    """Empty when the node is well; else what speaks against it. Silence speaks against it."""
    silence = unheard(health)
    if silence or not isinstance(health, HealthView):
        return silence
    ours = {(fault.code, fault.device) for fault in faults_of(remediation)}
    for fault in health.faults:
        if (fault.code, fault.device) in ours or fault.action in ACTING:
            return f"{fault.code} is still open" + (f" on {fault.device}" if fault.device else "")
    if health.gpus_seen is None:
        return "the GPUs could not be counted"
    if health.gpus_seen < health.gpus_expected:
        return f"{health.gpus_seen} of {health.gpus_expected} GPUs are seen"
    return _not_offered(node, health.gpus_expected)


def _not_offered(node: NodeView, expected: int) -> str:
    """A device plugin that has given up a GPU doesn't take it back by itself: the node would come back with one less
    for jobs than it has."""
    if not expected:
        return ""
    if node.gpus_offered is None:
        return "what the Node offers is not known"
    return f"the Node offers {node.gpus_offered} of {expected} GPUs" if node.gpus_offered < expected else ""
