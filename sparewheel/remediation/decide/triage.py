"""From reports to incidents: what opens a new one, what is folded into the open one, what is left alone."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta

from sparewheel.api.faults import Action, Fault, FaultSource, Severity
from sparewheel.api.gpu_pool import GpuPool
from sparewheel.api.names import (
    ANNOTATION_REPLACE_REQUEST,
    CODE_MANUAL,
    CODE_NODE_LOST,
    LABEL_POOL,
    LABEL_ROLE,
    ROLE_ACTIVE,
)
from sparewheel.api.remediation import Remediation, RemediationSpec, SeenJob, Trigger
from sparewheel.api.remediation_policy import RemediationPolicySpec
from sparewheel.remediation.decide.observations import NodeView, PodView
from sparewheel.remediation.decide.silence import Silence

HEALING_ACTIONS = frozenset({Action.RESET_GPU, Action.REBOOT, Action.REPLACE})
"""Each asks for the node to be taken from its jobs. All are healed by a spare, the fastest way back for the job; the
quarantined host carries the fault's own action in its reason, for whoever repairs it."""
_SEVEREST = list(Action)
MAX_SEEN = 100


@dataclass(frozen=True, slots=True)
class Report:
    """What is known about one node at triage."""

    node: NodeView
    boot_id: str = ""
    faults: tuple[Fault, ...] = ()
    fresh: bool = True
    """The report changed while this controller watched. An older one may be of an earlier life of the node."""
    heartbeat: datetime | None = None
    silence: Silence | None = None
    workers: Sequence[PodView] = ()
    jobs_seen: Mapping[int, frozenset[str]] = field(default_factory=dict[int, frozenset[str]])


@dataclass(frozen=True, slots=True)
class New:
    name: str
    spec: RemediationSpec


@dataclass(frozen=True, slots=True)
class Fold:
    name: str
    faults: tuple[Fault, ...]


def triage(
    report: Report,
    pool: GpuPool | None,
    policy: RemediationPolicySpec,
    open_incident: Remediation | None,
    known: Collection[str],
    now: datetime,
) -> New | Fold | None:
    """``known``: names of all records there are; an incident closed before is not opened again."""
    if pool is None or pool.spec.paused or report.node.labels.get(LABEL_POOL) != pool.metadata.name:
        return None
    faults = _actionable(report, policy)
    if open_incident is not None:
        fresh = tuple(fault for fault in faults if not _is_known(fault, open_incident))
        return Fold(open_incident.metadata.name, fresh) if fresh else None
    if report.node.labels.get(LABEL_ROLE) != ROLE_ACTIVE:
        return None
    for fault in (*_manual(report, now), *faults, *_lost(report, pool, now)):
        spec = _spec(report, pool, policy, fault)
        name = incident_name(report.node, report.boot_id, fault, report.heartbeat, dry_run=spec.dry_run)
        if name not in known:
            return New(name, spec)
    return None


def _actionable(report: Report, policy: RemediationPolicySpec) -> list[Fault]:
    """Faults that ask for the node, severest first; the policy's overrides win over the catalogue."""
    if not report.fresh:
        return []
    found: list[Fault] = []
    for fault in report.faults:
        action = policy.fault_overrides.get(fault.code, fault.action)
        if action in HEALING_ACTIONS:
            found.append(fault.model_copy(update={"action": action}))
    return sorted(found, key=lambda fault: (-_SEVEREST.index(fault.action), fault.first_seen, fault.code, fault.device))


def _is_known(fault: Fault, incident: Remediation) -> bool:
    known = [incident.spec.fault, *incident.status.more_faults]
    return any((other.code, other.device) == (fault.code, fault.device) for other in known)


def _manual(report: Report, now: datetime) -> list[Fault]:
    value = report.node.annotations.get(ANNOTATION_REPLACE_REQUEST, "")
    if not value:
        return []
    return [_fault(CODE_MANUAL, FaultSource.MANUAL, now, value[:200], Severity.INFO)]


def _lost(report: Report, pool: GpuPool, now: datetime) -> list[Fault]:
    silence = report.silence
    if silence is None or not silence.lost(pool.spec.node_lost_seconds):
        return []
    since = now - timedelta(seconds=silence.agent_seconds or 0.0)
    text = f"agent and kubelet silent for {silence.agent_seconds or 0.0:.0f} s"
    return [_fault(CODE_NODE_LOST, FaultSource.HEARTBEAT, since, text, Severity.CRITICAL)]


def _fault(code: str, source: FaultSource, when: datetime, message: str, severity: Severity) -> Fault:
    return Fault(
        code=code,
        action=Action.REPLACE,
        severity=severity,
        source=source,
        first_seen=when,
        last_seen=when,
        message=message,
    )


def incident_name(
    node: NodeView, boot_id: str, fault: Fault, heartbeat: datetime | None = None, *, dry_run: bool = False
) -> str:
    """The same for every controller that sees the same fault of the same incarnation: a second cannot be made.

    A dry run has a name of its own, so that the fault is healed once dry runs are over.
    """
    # The times of a manual and of a lost node's fault are the observer's own; words and last heartbeat tell them apart.
    told_apart = {CODE_MANUAL: fault.message, CODE_NODE_LOST: str(heartbeat)}.get(fault.code, str(fault.first_seen))
    text = f"{node.uid}|{boot_id}|{fault.code}|{fault.device}|{told_apart}{'|dry run' if dry_run else ''}"
    digest = hashlib.sha256(text.encode()).hexdigest()[:8]
    code = re.sub(r"[^a-z0-9]+", "-", fault.code.lower()).strip("-")
    return f"{node.name[:40].strip('-.')}-{code}-{digest}"


def _spec(report: Report, pool: GpuPool, policy: RemediationPolicySpec, fault: Fault) -> RemediationSpec:
    trigger = {CODE_MANUAL: Trigger.MANUAL, CODE_NODE_LOST: Trigger.NODE_LOST}.get(fault.code, Trigger.FAULT)
    worker = next((pod for pod in report.workers if pod.worker and not pod.finished), None)
    return RemediationSpec(
        node=report.node.name,
        node_uid=report.node.uid,
        provider_id=report.node.provider_id,
        boot_id=report.boot_id or report.node.boot_id,
        pool=pool.metadata.name,
        slurm_node=worker.hostname or worker.name if worker else None,
        worker_pod_uid=worker.uid if worker else None,
        trigger=trigger,
        fault=fault,
        requested_by=fault.message if trigger is Trigger.MANUAL else "",
        grace_seconds=pool.spec.grace_seconds,
        dry_run=pool.spec.dry_run or policy.dry_run,
        jobs_seen=[
            SeenJob(job_id=job, slurm_nodes=sorted(nodes)) for job, nodes in sorted(report.jobs_seen.items())[:MAX_SEEN]
        ],
    )


HEARD_SECONDS = 5.0


def still_open(incident: Remediation, report: Report) -> bool | None:
    """Before anything was done: is the fault still there? A stale record must not act on a node that is well again.

    None: not known yet, because no report came in since this controller began to watch.
    """
    spec = incident.spec
    if spec.trigger is Trigger.MANUAL:
        return True
    silent = report.silence.agent_seconds if report.silence is not None else None
    if spec.trigger is Trigger.NODE_LOST:
        return not report.fresh or silent is None or silent > HEARD_SECONDS
    if not report.fresh:
        return None
    if report.boot_id and spec.boot_id and report.boot_id != spec.boot_id:
        return False
    return any((fault.code, fault.device) == (spec.fault.code, spec.fault.device) for fault in report.faults)
