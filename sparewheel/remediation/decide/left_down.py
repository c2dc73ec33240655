"""A Slurm node that stays DOWN although nobody means it to: its worker was made again on the same host.

The old pod's preStop sets it DOWN, and with ReturnToService below 2 a new slurmd's registration does not change that
(seen on 26.05, after a rolling update). It is brought back only where every doubt is ruled out.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from sparewheel.api.gpu_pool import GpuPoolSpec
from sparewheel.api.names import GROUP, LABEL_POOL, LABEL_ROLE, ROLE_ACTIVE
from sparewheel.api.remediation import NodeStage, Remediation
from sparewheel.api.remediation_policy import RemediationPolicySpec
from sparewheel.remediation.decide.drain import FRESH_SECONDS
from sparewheel.remediation.decide.observations import HealthView, NodeView, PodView, SlurmNodeView
from sparewheel.remediation.decide.policy import ACTING, ruling
from sparewheel.remediation.decide.record import is_open, stage_record
from sparewheel.remediation.decide.slurm_return import moved_by_slinky, uncordoned_by_slinky

_SLURMCTLD = ("not responding", "node unexpectedly rebooted")
"""What slurmctld itself writes when it sets a node DOWN."""
_OTHER_MARKS = frozenset({"DRAIN", "FAIL", "MAINTENANCE", "REBOOT_REQUESTED", "REBOOT_ISSUED", "POWERING_DOWN"})
"""Somebody wants the node out for a reason of its own, whatever the last reason text says."""


@dataclass(frozen=True, slots=True)
class Place:
    """Where the Slurm node runs, as it is known: its worker pods, the Node of the newest, and that node's report."""

    pods: Sequence[PodView] = ()
    node: NodeView | None = None
    health: HealthView | None = None
    pool: GpuPoolSpec | None = None


def candidate(slurm: SlurmNodeView) -> bool:
    """DOWN and nothing else, by nobody's word, and another instance has registered since.

    Where a cordon was taken off meanwhile, Slinky's word for that is newer than the instance and dates nothing.
    """
    if "DOWN" not in slurm.states or slurm.states & _OTHER_MARKS or not slurm.registered:
        return False
    changed, started = slurm.reason_changed_at, slurm.slurmd_start_time
    if not nobodys(slurm.reason) or changed is None or started is None:
        return False
    return started > changed or uncordoned_by_slinky(slurm.reason)


def nobodys(reason: str) -> bool:
    """Slurm's own word, or Slinky's for a pod that went; never a person's, and never an incident's."""
    return moved_by_slinky(reason) or reason.strip().lower().startswith(_SLURMCTLD)


def why_left_down(
    slurm: SlurmNodeView, place: Place, policy: RemediationPolicySpec, incidents: Iterable[Remediation]
) -> str:
    """Empty when the node may be set RESUME, else what speaks against it."""
    if not candidate(slurm):
        return "it is not DOWN by nobody's word with a newer slurmd"
    if len(place.pods) != 1 or place.pods[0].deleting or place.pods[0].finished or place.node is None:
        return "it has not exactly one worker pod"
    if uncordoned_by_slinky(slurm.reason) and not place.pods[0].ready:
        return "its slurmd does not answer yet"
    if place.pool is None or place.pool.paused or place.pool.dry_run or policy.dry_run:
        return "its pool is not known, paused or in dry run"
    return (
        _node_trouble(place.node)
        or _health_trouble(place.health, place.pool, policy)
        or _incident(slurm, place.node, incidents)
    )


def _node_trouble(node: NodeView) -> str:
    if LABEL_POOL not in node.labels or node.labels.get(LABEL_ROLE) != ROLE_ACTIVE:
        return f"node {node.name} is no active node of a pool"
    if node.ready is not True or node.unschedulable:
        return f"node {node.name} is not Ready or is cordoned"
    ours = sorted(taint for taint in node.taints if taint.startswith(f"{GROUP}/"))
    return f"node {node.name} has taint {ours[0]}" if ours else ""


def _health_trouble(health: HealthView | None, pool: GpuPoolSpec, policy: RemediationPolicySpec) -> str:
    if health is None or health.heard_seconds_ago > FRESH_SECONDS:
        return "its agent is silent"
    if health.gpus_seen is None or health.gpus_seen < health.gpus_expected:
        return "its agent sees too few GPUs"
    for fault in health.faults:
        if ruling(fault, pool.fault_policies, policy.fault_policies).action in ACTING:
            return f"{fault.code} is open"
    return ""


def _incident(slurm: SlurmNodeView, node: NodeView, incidents: Iterable[Remediation]) -> str:
    for incident in incidents:
        spec, status = incident.spec, incident.status
        if is_open(incident) and (
            node.name in {spec.node, status.replacement.spare_node}
            or slurm.name in {spec.slurm_node, *status.owned.slurm_down}
        ):
            return f"incident {incident.metadata.name} is open"
        closed = stage_record(status, NodeStage.CLOSED)
        left_so = spec.slurm_node == slurm.name and status.owned.foreign_reason and closed and closed.ended_at
        if left_so and slurm.reason_changed_at is not None and slurm.reason_changed_at <= left_so:
            return f"{incident.metadata.name} left it out of service ({status.owned.foreign_reason})"
    return ""
