"""A host serves, and its Node object is gone by somebody else's hand: which hosts those are, and the incident. Pure.

Capacity takes a host out of the phase Active, or claims it, before it deletes the Node: what we delete is never one.
"""

from __future__ import annotations

import hashlib
from collections.abc import Collection, Iterable, Sequence
from datetime import datetime

from sparewheel.api.faults import FaultSource, Severity
from sparewheel.api.gpu_host import GpuHost, HostPhase
from sparewheel.api.gpu_pool import GpuPool
from sparewheel.api.names import CLAIM_OF_INCIDENT, CODE_NODE_REMOVED
from sparewheel.api.remediation import Remediation, Trigger
from sparewheel.api.remediation_policy import RemediationPolicySpec
from sparewheel.remediation.decide.missing_node import lacks_node
from sparewheel.remediation.decide.policy import HEALING, ruling
from sparewheel.remediation.decide.record import is_open
from sparewheel.remediation.decide.triage import New, Report, rules_for, spec_of, whole_node_fault


def serves(host: GpuHost) -> bool:
    """Is its Node expected to be there? A spare that an incident has admitted serves, and can lose its Node too."""
    owner = host.status.claim.owner if host.status.claim is not None else CLAIM_OF_INCIDENT
    active = host.status.phase is HostPhase.ACTIVE and bool(host.status.node_name)
    return active and owner.startswith(CLAIM_OF_INCIDENT)


def without_node(hosts: Iterable[GpuHost], nodes: Collection[str]) -> list[GpuHost]:
    return [host for host in hosts if lacks_node(host, nodes) and serves(host)]


def removed(
    host: GpuHost,
    seen: Report,
    pool: GpuPool | None,
    policy: RemediationPolicySpec,
    records: Sequence[Remediation],
    since: datetime,
) -> New | None:
    """The incident; None where there is nothing to do. ``seen``: what was known of the node before it went.

    ``records``: those of the node. What a person called off is left until the host has served anew.
    """
    if pool is None or pool.spec.paused or pool.metadata.name != host.spec.pool:
        return None
    text = f"the Node object of host {host.spec.host} was deleted by somebody else and did not come back"
    fault = whole_node_fault(CODE_NODE_REMOVED, FaultSource.HEARTBEAT, since, text, Severity.CRITICAL)
    how = ruling(fault, rules_for(fault, pool.spec.fault_policies), rules_for(fault, policy.fault_policies))
    before = [one for one in records if one.spec.trigger is Trigger.NODE_REMOVED]
    names = [removed_name(host, number) for number in range(len(before) + 1)]
    mine = [one for one in before if one.metadata.name in names]
    if how.action not in HEALING or any(is_open(one) or one.status.cancelled_by for one in mine):
        return None
    name = names[len(mine)]
    return New(name, spec_of(seen, pool, policy, fault, how))


def removed_name(host: GpuHost, earlier: int = 0) -> str:
    """The same for every controller, also one that never saw the Node.

    ``earlier``: so many incidents of the same time of service ended because the Node came back.
    """
    text = f"{host.spec.host}|{host.status.boot_id}|{host.status.since}|{earlier}"
    digest = hashlib.sha256(text.encode()).hexdigest()[:8]
    return f"{(host.status.node_name or '')[:40].strip('-.')}-node-removed-{digest}"


def open_about(host: GpuHost, records: Iterable[Remediation]) -> bool:
    """An open incident sees to the host already."""
    return any(is_open(record) and record.spec.node == host.status.node_name for record in records)
