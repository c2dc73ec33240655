"""From reports to incidents: what opens a new one, what is folded into the open one, what is left alone."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta

from sparewheel.api.fault_policy import FaultPolicy
from sparewheel.api.faults import Action, Fault, FaultSource, Severity
from sparewheel.api.gpu_pool import GpuPool
from sparewheel.api.names import (
    ANNOTATION_REPLACE_REQUEST,
    CODE_MANUAL,
    CODE_NODE_LOST,
    CODE_NODE_REMOVED,
    LABEL_POOL,
    LABEL_ROLE,
    NODE_CODES,
    ROLE_ACTIVE,
)
from sparewheel.api.remediation import Remediation, RemediationSpec, SeenJob, Trigger
from sparewheel.api.remediation_policy import RemediationPolicySpec
from sparewheel.remediation.decide.observations import NodeView, PodView
from sparewheel.remediation.decide.policy import ACTING, HEALING, Ruling, ruling, severity
from sparewheel.remediation.decide.silence import Silence
from sparewheel.remediation.decide.treated import faults_of, news, planned, treated_before

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
    history: Iterable[Remediation] = (),
) -> New | Fold | None:
    """``known``: names of all records there are; an incident closed before is not opened again.

    ``history``: the node's records.
    """
    if pool is None or pool.spec.paused or report.node.labels.get(LABEL_POOL) != pool.metadata.name:
        return None
    asked, ruled = _manual(report, now), _ruled(report, pool, policy, now)
    if open_incident is not None and open_incident.status.cancelled_by:
        return (
            None  # the person who called it off did not see what comes now: an incident of its own, once that has ended
        )
    if open_incident is not None:
        acted_on = [fault for fault, how in ruled if not (how.detect_only or how.dry_run)]
        found = [fault for fault in (*asked, *acted_on) if news(fault, open_incident)]
        fresh = tuple(fault for fault in found if _more(fault, open_incident))
        return Fold(open_incident.metadata.name, fresh) if fresh else None
    if report.node.labels.get(LABEL_ROLE) != ROLE_ACTIVE:
        return None
    for fault, how in (*((fault, BY_HAND) for fault in asked), *ruled):
        spec = spec_of(report, pool, policy, fault, how)
        marks = "detect only" if spec.detect_only else "dry run" if spec.dry_run else ""
        name = incident_name(report.node, report.boot_id, fault, report.heartbeat, marks=marks)
        if name not in known and (spec.dry_run or not treated_before(report.node.uid, report.boot_id, fault, history)):
            return New(name, spec)
    return None


def _more(fault: Fault, open_incident: Remediation) -> bool:
    """A node that is being replaced falls silent; one that is only cordoned, or whose jobs restart, is lost."""
    return fault.code != CODE_NODE_LOST or planned(open_incident) not in HEALING


BY_HAND = Ruling(Action.REPLACE, because="a person's request")


def _ruled(report: Report, pool: GpuPool, policy: RemediationPolicySpec, now: datetime) -> list[tuple[Fault, Ruling]]:
    """Faults that something is done about, most severe first, each with the action that its policy gives it."""
    seen = sorted(report.faults if report.fresh else (), key=lambda one: (one.first_seen, one.code, one.device))
    found: list[tuple[Fault, Ruling]] = []
    for fault in (*seen, *_lost(report, pool, now)):
        how = ruling(fault, rules_for(fault, pool.spec.fault_policies), rules_for(fault, policy.fault_policies))
        if how.action in ACTING:
            found.append((fault.model_copy(update={"action": how.action}), how))
    return sorted(found, key=lambda one: (one[0].code == CODE_NODE_LOST, -severity(one[0].action)))


def rules_for(fault: Fault, rules: Sequence[FaultPolicy]) -> Sequence[FaultPolicy]:
    """A lost node is no GPU's fault: only a rule that names it is meant."""
    return [rule for rule in rules if rule.code == fault.code] if fault.code in NODE_CODES else rules


def _manual(report: Report, now: datetime) -> list[Fault]:
    value = report.node.annotations.get(ANNOTATION_REPLACE_REQUEST, "")
    if not value:
        return []
    return [whole_node_fault(CODE_MANUAL, FaultSource.MANUAL, now, value[:200], Severity.INFO)]


def _lost(report: Report, pool: GpuPool, now: datetime) -> list[Fault]:
    silence = report.silence
    if silence is None or not silence.lost(pool.spec.node_lost_seconds):
        return []
    since = now - timedelta(seconds=silence.agent_seconds or 0.0)
    return [whole_node_fault(CODE_NODE_LOST, FaultSource.HEARTBEAT, since, silence.words, Severity.CRITICAL)]


def whole_node_fault(code: str, source: FaultSource, when: datetime, message: str, how_severe: Severity) -> Fault:
    return Fault(
        code=code,
        action=Action.REPLACE,
        severity=how_severe,
        source=source,
        first_seen=when,
        last_seen=when,
        message=message,
    )


def incident_name(
    node: NodeView, boot_id: str, fault: Fault, heartbeat: datetime | None = None, *, marks: str = ""
) -> str:
    """The same for every controller that sees the same fault of the same incarnation: a second cannot be made.

    ``marks``: a dry run has a name of its own, so that the fault is healed once dry runs are over. What leaves the
    node in the cluster does so too, in case the fault asks for more later; a job is restarted as often as it is hit.
    """
    # The times of a manual and of a lost node's fault are the observer's own; words and last heartbeat tell them apart.
    told_apart = {CODE_MANUAL: fault.message, CODE_NODE_LOST: str(heartbeat)}.get(fault.code, str(fault.first_seen))
    text = f"{node.uid}|{boot_id}|{fault.code}|{fault.device}|{told_apart}{f'|{marks}' if marks else ''}"
    if fault.action not in HEALING:
        text += f"|{fault.action}" + (f"|{fault.count}" if fault.action is Action.RESTART_JOB else "")
    digest = hashlib.sha256(text.encode()).hexdigest()[:8]
    code = re.sub(r"[^a-z0-9]+", "-", fault.code.lower()).strip("-")
    return f"{node.name[:40].strip('-.')}-{code}-{digest}"


_TRIGGERS = {
    CODE_MANUAL: Trigger.MANUAL,
    CODE_NODE_LOST: Trigger.NODE_LOST,
    CODE_NODE_REMOVED: Trigger.NODE_REMOVED,
}


def spec_of(report: Report, pool: GpuPool, policy: RemediationPolicySpec, fault: Fault, how: Ruling) -> RemediationSpec:
    trigger = _TRIGGERS.get(fault.code, Trigger.FAULT)
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
        dry_run=pool.spec.dry_run or policy.dry_run or how.dry_run or how.detect_only,
        detect_only=how.detect_only,
        policy=how.because,
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
    ours = {(fault.code, fault.device) for fault in faults_of(incident)}
    return any((fault.code, fault.device) in ours for fault in report.faults)
