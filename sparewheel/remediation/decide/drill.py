"""Which node a drill hits: one that runs no job, in a pool that can heal it now. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from sparewheel.api.gpu_host import GpuHost
from sparewheel.api.gpu_pool import GpuPool
from sparewheel.api.names import LABEL_POOL, LABEL_ROLE, ROLE_ACTIVE
from sparewheel.api.node_health import NodeHealth
from sparewheel.api.remediation import Remediation
from sparewheel.remediation.decide.observations import NodeView
from sparewheel.remediation.decide.record import is_open
from sparewheel.remediation.decide.spare_need import free_spare


def why_not_drill(
    node: NodeView,
    pools: Iterable[GpuPool],
    hosts: Iterable[GpuHost],
    healths: Iterable[NodeHealth],
    records: Iterable[Remediation],
    earlier: Iterable[NodeHealth],
    *,
    busy: bool = False,
) -> str:
    """Why the node is not to be drilled; empty when it may be. ``busy``: its jobs may be hit.

    ``earlier``: the reports some heartbeats ago. One that has not changed since is of a silent agent; no clock of a
    node is compared with ours.
    """
    pool = next((pool for pool in pools if pool.metadata.name == node.labels.get(LABEL_POOL)), None)
    if pool is None or node.labels.get(LABEL_ROLE) != ROLE_ACTIVE or node.unschedulable:
        return f"node {node.name} takes no work of a pool"
    name = pool.metadata.name
    if pool.spec.paused or pool.spec.dry_run:
        return f"pool {name} is {'paused' if pool.spec.paused else 'in dry run'}, so nothing would be healed"
    going_on = [r.metadata.name for r in records if r.spec.pool == name and is_open(r)]
    if going_on:
        return f"incident {going_on[0]} of pool {name} is open; a drill waits for its end"
    if not any(free_spare(host) for host in hosts if host.spec.pool == name):
        return f"pool {name} has no free spare; a drill would take a node and give none back"
    return _agent_says(node.name, _of(node.name, healths), _of(node.name, earlier), busy=busy)


def _of(node: str, healths: Iterable[NodeHealth]) -> NodeHealth | None:
    return next((health for health in healths if health.metadata.name == node), None)


def _agent_says(node: str, health: NodeHealth | None, before: NodeHealth | None, *, busy: bool) -> str:
    if health is None or health.status.heartbeat_time is None or health.status.jobs_observed_time is None:
        return f"the agent on {node} does not say which jobs run there"
    beat = health.status
    if before is not None and before.status.heartbeat_time == beat.heartbeat_time:
        return f"the agent on {node} is silent"
    if beat.faults:
        return f"node {node} reports {beat.faults[0].code} already"
    jobs = [str(job.job_id) for job in beat.jobs if job.processes]
    if jobs and not busy:
        return f"job {jobs[0]} runs on node {node}; choose an idle one, or add --busy"
    return ""


def pick(
    nodes: Iterable[NodeView],
    pools: Sequence[GpuPool],
    hosts: Sequence[GpuHost],
    healths: Sequence[NodeHealth],
    records: Sequence[Remediation],
    earlier: Sequence[NodeHealth],
) -> tuple[str | None, list[str]]:
    """The first idle node by name, and why the others before it are none, each reason once."""
    reasons: list[str] = []
    for node in sorted(nodes, key=lambda node: node.name):
        if LABEL_POOL not in node.labels:
            continue
        why = why_not_drill(node, pools, hosts, healths, records, earlier)
        if not why:
            return node.name, reasons
        if why not in reasons:
            reasons.append(why)
    return None, reasons


def drill_of(records: Iterable[Remediation], node: str, known: Iterable[str]) -> Remediation | None:
    """The record that the drill opened: of this node, a drill, and not there before."""
    before = set(known)
    found = [r for r in records if r.spec.node == node and r.spec.fault.drill and r.metadata.name not in before]
    return min(found, key=lambda record: record.metadata.name, default=None)
