"""Which faults an incident has dealt with, so that none is taken up twice and none is lost between two. Pure."""

from __future__ import annotations

from collections.abc import Iterable

from sparewheel.api.faults import Action, Fault
from sparewheel.api.names import CODE_MANUAL
from sparewheel.api.remediation import FenceKind, Remediation
from sparewheel.remediation.decide.policy import planned_action, severity
from sparewheel.remediation.decide.record import is_open


def faults_of(incident: Remediation) -> list[Fault]:
    """The fault that opened it and those folded in later."""
    return [incident.spec.fault, *incident.status.more_faults]


def planned(incident: Remediation) -> Action:
    """What the incident does: what its most severe fault asks for."""
    return planned_action(faults_of(incident))


def on_hold(incident: Remediation) -> bool:
    """Fenced, and left so until a person asks for more."""
    return bool(incident.spec.hold) and all(fault.code != CODE_MANUAL for fault in incident.status.more_faults)


def replaces(incident: Remediation) -> bool:
    """Open, and it brings in a spare or may yet: not where a person's word or a recovery is all that it waits for."""
    left = incident.status.fence in {FenceKind.JOBS, FenceKind.CORDON} or on_hold(incident)
    return is_open(incident) and not left


def news(fault: Fault, incident: Remediation) -> bool:
    """Does the fault say anything that the incident doesn't know?"""
    if fault.code == CODE_MANUAL and planned(incident) is Action.REPLACE and not incident.spec.hold:
        return False  # it does already what the person asks for
    return not any(_covers(known, fault, Action.REPLACE) for known in faults_of(incident))


def _covers(known: Fault, fault: Fault, done: Action) -> bool:
    """Same code and device, and what was done is as much as is asked for now."""
    if (known.code, known.device) != (fault.code, fault.device):
        return False
    if fault.code == CODE_MANUAL and known.message != fault.message:
        return False
    if min(severity(known.action), severity(done)) < severity(fault.action):
        return False
    return fault.action is not Action.RESTART_JOB or known.count >= fault.count


def _done(incident: Remediation) -> Action:
    """The most that the incident did about its faults."""
    done = {FenceKind.JOBS: Action.RESTART_JOB, FenceKind.CORDON: Action.CORDON}
    return done.get(incident.status.fence, Action.REPLACE)


def treated_before(node_uid: str, boot_id: str, fault: Fault, history: Iterable[Remediation]) -> bool:
    """Was this very fault (same life of the node, same first sighting) part of an incident that has ended?

    A person who called an incident off has seen its folded faults too.
    """
    return any(
        known.first_seen == fault.first_seen and _covers(known, fault, _done(incident))
        for incident in history
        if incident.spec.node_uid == node_uid
        and incident.spec.boot_id == boot_id
        and not incident.spec.dry_run
        and not is_open(incident)
        for known in faults_of(incident)
    )
