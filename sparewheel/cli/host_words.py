"""What a host is to people: its phase, and the incident that has it in hand. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from sparewheel.api.gpu_host import GpuHost, HostPhase
from sparewheel.api.remediation import FenceKind, NodeStage, Remediation
from sparewheel.remediation.decide.record import is_open, started

STALE_HEARTBEATS = 4
"""An agent that missed this many heartbeats is shown as silent."""
_FENCES = {FenceKind.CORDON: "Cordoned", FenceKind.DRAIN: "Drained", FenceKind.JOBS: HostPhase.ACTIVE.value}
"""What a milder fence leaves of a node that serves; any other makes it Fenced."""


def in_hand(records: Iterable[Remediation]) -> dict[str, Remediation]:
    """The open incident of each node; a dry run has nothing in hand."""
    return {record.spec.node: record for record in records if is_open(record) and not record.spec.dry_run}


def incident_of(host: GpuHost, incidents: Mapping[str, Remediation]) -> Remediation | None:
    """The open incident of a host that served when it began: capacity calls it Active until its spare has joined."""
    return incidents.get(host.status.node_name or "") if host.status.phase is HostPhase.ACTIVE else None


def fenced(host: GpuHost, incidents: Mapping[str, Remediation]) -> bool:
    """Does it take no work although capacity still calls it Active?"""
    incident = incident_of(host, incidents)
    if incident is None or not started(incident.status, NodeStage.FENCED):
        return False
    return incident.status.fence is not FenceKind.JOBS


def phase_words(host: GpuHost, incidents: Mapping[str, Remediation], *, alone: bool = False) -> str:
    """``Active``, ``Fenced (incident NAME)``. ``alone``: lemon and reason have columns of their own."""
    lemon = "lemon, " if host.status.lemon and not alone else ""
    incident = incident_of(host, incidents)
    if incident is None:
        reason = f" ({host.status.reason})" if host.status.reason and not alone else ""
        return f"{lemon}{host.status.phase.value}{reason}"
    phase = _FENCES.get(incident.status.fence, "Fenced") if fenced(host, incidents) else host.status.phase.value
    return f"{lemon}{phase} (incident {incident.metadata.name})"
