"""Is a node that stayed in the cluster well again? Its faults gone, said afresh, and all GPUs there. Pure."""

from __future__ import annotations

from sparewheel.api.remediation import Remediation
from sparewheel.remediation.decide.drain import FRESH_SECONDS
from sparewheel.remediation.decide.observations import HealthView, Unknown
from sparewheel.remediation.decide.policy import ACTING
from sparewheel.remediation.decide.treated import faults_of


def unheard(health: HealthView | Unknown | None) -> str:
    """Empty when the node's agent has just said how it is."""
    if not isinstance(health, HealthView):
        return "no report of the node"
    if not health.heard_since_fence or health.heard_seconds_ago > FRESH_SECONDS:
        return "no fresh report of the node"
    return ""


def not_well(remediation: Remediation, health: HealthView | Unknown | None) -> str:
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
    return ""
