"""The veto: what keeps a fenced node from being drained and replaced, for how long, and what not knowing means.

Three say no: a pod with the veto label, the node's veto annotation, a paused pool. ``until=TIME`` in the annotation of
the node (or of the pod, beside its label) ends it. A look-up that failed says no as well.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta

from sparewheel.api.gpu_pool import GpuPoolSpec
from sparewheel.api.names import ANNOTATION_VETO
from sparewheel.api.remediation import NodeStage, Remediation
from sparewheel.api.remediation_policy import VetoEscalation, VetoRule
from sparewheel.remediation.decide.observations import Gone, NodeView, PodView, Unknown
from sparewheel.remediation.decide.record import stage_record


@dataclass(frozen=True, slots=True)
class Note:
    """What the annotation says. ``until`` None: without end."""

    until: datetime | None = None
    reason: str = ""


@dataclass(frozen=True, slots=True)
class Verdict:
    reason: str = ""
    """What is waited for; empty when nothing holds the node."""
    overdue: bool = False
    """It has lasted longer than the policy's limit."""
    set_aside: str = ""
    """The veto that the policy no longer honours; its pods may be drained like others."""


@dataclass(frozen=True, slots=True)
class Sight:
    """What one look for vetoes sees."""

    pods: tuple[PodView, ...] | Unknown
    node: NodeView | Gone | Unknown
    pool: GpuPoolSpec
    now: datetime
    rule: VetoRule = field(default_factory=VetoRule)


def parse_note(text: str) -> Note:
    """``until=<RFC 3339>; reason``, both optional. A time that can't be read is no end: the veto holds."""
    head, _, rest = text.partition(";")
    if not head.strip().startswith("until="):
        return Note(reason=text.strip())
    written = head.strip().removeprefix("until=").strip()
    try:
        until = datetime.fromisoformat(written)
    except ValueError:
        return Note(reason=f"{rest.strip()} (until={written} is no RFC 3339 time, so it has no end)".strip())
    return Note(until if until.tzinfo else until.replace(tzinfo=UTC), rest.strip())


def veto_of(remediation: Remediation, seen: Sight) -> Verdict:
    """What holds the node now. Not knowing and a paused pool hold it whatever the policy says of overdue vetoes."""
    begun = stage_record(remediation.status, NodeStage.VETOED)
    limit = timedelta(seconds=seen.rule.max_seconds)
    overdue = begun is not None and seen.now - begun.started_at >= limit
    firm = _unknown(seen) or (f"pool {remediation.spec.pool}, which is paused" if seen.pool.paused else "")
    if firm:
        return Verdict(firm, overdue)
    wish = _wish(seen)
    if wish and overdue and seen.rule.escalate is VetoEscalation.PROCEED:
        return Verdict(set_aside=f"{wish}, set aside by the policy after {seen.rule.max_seconds} s")
    return Verdict(wish, overdue and bool(wish))


def _unknown(seen: Sight) -> str:
    for what in (seen.pods, seen.node):
        if isinstance(what, Unknown):
            return f"the look-up of vetoes, which failed ({what.error})"
    return ""


def _wish(seen: Sight) -> str:
    """The vetoes of pods and of the node, in words. A finished pod has none; a terminating one until it is gone."""
    found: list[str] = []
    if isinstance(seen.pods, tuple):
        pods = [pod for pod in seen.pods if pod.veto and not pod.finished and _holds(parse_note(pod.veto_note), seen)]
        names = ", ".join(sorted(f"{pod.namespace}/{pod.name}" for pod in pods))
        if pods:
            found.append(f"the veto of {'pods' if len(pods) > 1 else 'pod'} {names}")
    if isinstance(seen.node, NodeView) and ANNOTATION_VETO in seen.node.annotations:
        note = parse_note(seen.node.annotations[ANNOTATION_VETO])
        if _holds(note, seen):
            end = f" until {note.until.astimezone(UTC):%Y-%m-%d %H:%M:%S} UTC" if note.until else ""
            found.append(f"the veto on node {seen.node.name}{end}{f' ({note.reason})' if note.reason else ''}")
    return " and ".join(found)


def _holds(note: Note, seen: Sight) -> bool:
    return note.until is None or seen.now < note.until
