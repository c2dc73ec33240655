"""The ladder of mending a node where it is: which rung comes next, and how one went. Pure.

A reset takes one GPU; each GPU that asks for one gets one. A reboot takes the node: its helper does it or, where that
can't be asked, the pool's capacity backend. No rung is taken twice in one incident, and none after a milder one that
only a more severe one can follow.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final

from sparewheel.api.enums import NodeActionKind, NodeActionState
from sparewheel.api.faults import Action
from sparewheel.api.gpu_pool import GpuPoolSpec, can_power_cycle
from sparewheel.api.ladder import LadderRule, RebootBy, Rung, RungRecord, RungResult
from sparewheel.api.node_action import NodeActionRequest, is_device
from sparewheel.api.node_health import NodeAction
from sparewheel.api.remediation import NodeStage, Remediation, RemediationSpec, RemediationStatus
from sparewheel.api.remediation_policy import RemediationPolicySpec
from sparewheel.remediation.decide.history import real
from sparewheel.remediation.decide.observations import HealthView
from sparewheel.remediation.decide.record import started
from sparewheel.remediation.decide.treated import faults_of, planned

CLIMBS: Final = frozenset({Action.RESET_GPU, Action.REBOOT})
"""What a rung can do; a fault that asks for more has its node replaced."""
SILENT_SECONDS: Final = 45.0
"""A helper looks every two seconds and answers before it acts; one that has said nothing for this long won't."""
WITHDRAWN_SECONDS: Final = 20.0
"""A helper that had read a request before it was taken back has begun by then: it waits ten seconds for holders."""
BEGIN_SECONDS: Final = {NodeActionKind.RESET_GPU: 30.0, NodeActionKind.REBOOT: 240.0}
"""The request's own deadline: begun by then, or not at all. A host that reboots must have gone down by then."""


# -------------------------------------------------------------------- which rungs an incident has
def rungs_for(
    spec: RemediationSpec,
    pool: GpuPoolSpec,
    policy: RemediationPolicySpec,
    history: Iterable[Remediation],
    now: datetime,
) -> tuple[list[Rung], str]:
    """The rungs of a new incident, and why it has none although the policy has some."""
    rule = pool.ladder if pool.ladder is not None else policy.ladder
    rungs = [rung for rung in rule.rungs if policy.node_helpers or rung.kind is NodeActionKind.REBOOT]
    if not reboot_by(pool, policy):
        rungs = []
    often = mended_often(spec.node, rule, history, now) if rungs else ""
    return ([], often) if often else (rungs, "")


def reboot_by(pool: GpuPoolSpec, policy: RemediationPolicySpec) -> list[RebootBy]:
    """Who can reboot the pool's nodes."""
    can = {RebootBy.HELPER: policy.node_helpers, RebootBy.BACKEND: can_power_cycle(pool.backend)}
    return [by for by in RebootBy if can[by]]


def mended_often(node: str, rule: LadderRule, history: Iterable[Remediation], now: datetime) -> str:
    """Why the node is replaced at once: what mended it so far did not last. Empty while it may be mended."""
    since = now - timedelta(seconds=rule.mended_window_seconds)
    names = sorted(
        one.metadata.name
        for one in history
        if one.spec.node == node and real(one) and (at := one.status.ladder.mended_at) is not None and at > since
    )
    if len(names) < rule.mended_count:
        return ""
    count = "once" if len(names) == 1 else f"{len(names)} times"
    return f"node {node} was mended {count} within {rule.mended_window_seconds} s ({', '.join(names[:5])})"


# -------------------------------------------------------------------- where an incident stands
@dataclass(frozen=True, slots=True)
class Target:
    """The next rung. ``device``: for a reset."""

    kind: NodeActionKind
    timeout_seconds: int
    device: str = ""
    by: RebootBy = RebootBy.HELPER


def next_rung(remediation: Remediation) -> Target | None:
    """The mildest rung that the faults ask for and that was not taken; None where only a replacement is left."""
    asked, taken = planned(remediation), remediation.status.ladder.rungs
    if asked not in CLIMBS or (taken and taken[-1].result is RungResult.WITHDRAWN):
        return None
    limits = {rung.kind: rung.timeout_seconds for rung in remediation.spec.ladder}
    reboots = [rung for rung in taken if rung.kind is NodeActionKind.REBOOT]
    if asked is Action.RESET_GPU and NodeActionKind.RESET_GPU in limits and not reboots:
        devices = untaken_devices(remediation)
        if devices and all(rung.result is RungResult.SUCCEEDED for rung in taken):
            return Target(NodeActionKind.RESET_GPU, limits[NodeActionKind.RESET_GPU], devices[0])
    if NodeActionKind.REBOOT not in limits or any(rung.result not in _UNHEARD and not hung(rung) for rung in reboots):
        return None
    tried = {rung.by for rung in taken if rung.result in _UNHEARD or hung(rung)}
    by = next((one for one in remediation.spec.reboot_by if one not in tried), None)
    return Target(NodeActionKind.REBOOT, limits[NodeActionKind.REBOOT], by=by) if by is not None else None


_UNHEARD: Final = frozenset({RungResult.SILENT, RungResult.NOT_ASKED, RungResult.LOST})
"""Nobody took the request, or nobody is there any more: who was asked takes the next one neither."""


def hung(rung: RungRecord) -> bool:
    """Did the host not reboot by its helper's hand? It may still do so by a power cycle; one that rebooted and is ill
    is not rebooted again."""
    undone = rung.result in {RungResult.TIMED_OUT, RungResult.FAILED} and not rung.rebooted
    return rung.kind is NodeActionKind.REBOOT and rung.by is RebootBy.HELPER and undone


def untaken_devices(remediation: Remediation) -> list[str]:
    """GPUs whose reset is asked for and was not tried; none where a fault doesn't say which GPU it is of."""
    devices = [fault.device for fault in faults_of(remediation) if fault.action is Action.RESET_GPU]
    if not all(is_device(device) for device in devices):
        return []
    taken = {rung.device for rung in remediation.status.ladder.rungs}
    return [device for device in dict.fromkeys(devices) if device not in taken]


def open_rung(status: RemediationStatus) -> RungRecord | None:
    """The rung under way; the next one begins once it has ended."""
    taken = status.ladder.rungs
    return taken[-1] if taken and taken[-1].ended_at is None else None


def stays_first(remediation: Remediation) -> bool:
    """Is the node to be mended where it is, so that no spare is looked for yet?"""
    status = remediation.status
    over = status.ladder.over_at is not None or status.replacement.claimed_at is not None
    if over or started(status, NodeStage.DRAINED):
        return False
    return started(status, NodeStage.MENDED) or next_rung(remediation) is not None


# -------------------------------------------------------------------- how a rung goes
def request_of(rung: RungRecord) -> NodeActionRequest:
    """What the node's helper is asked; made from the record alone, so that asking again asks the same."""
    seconds = min(BEGIN_SECONDS[rung.kind], rung.timeout_seconds)
    return NodeActionRequest(rung.id, rung.kind, rung.asked_at + timedelta(seconds=seconds), rung.device)


def answer_to(rung: RungRecord, health: HealthView | None) -> NodeAction | None:
    """The helper's answer to this very request; None while there is none."""
    action = health.action if health is not None else None
    return action if action is not None and action.id == rung.id else None


def booted_anew(rung: RungRecord, health: HealthView | None) -> bool:
    """Does another boot report? The one proof that the host rebooted."""
    return health is not None and bool(rung.boot_id) and health.boot_id not in {"", rung.boot_id}


def took_effect(rung: RungRecord, health: HealthView | None) -> bool:
    """Is it known that the rung was done? Then the reports that come after say whether it helped."""
    if booted_anew(rung, health):
        return True
    answer = answer_to(rung, health)
    reset = rung.kind is NodeActionKind.RESET_GPU
    return reset and answer is not None and answer.state is NodeActionState.SUCCEEDED


@dataclass(frozen=True, slots=True)
class Ended:
    result: RungResult
    message: str = ""
    rebooted: bool = False


def how_it_ended(
    rung: RungRecord, health: HealthView | None, ill: str, now: datetime, *, asked: bool, lost: str = ""
) -> Ended | None:
    """None while the rung goes on. ``ill``: what speaks against the node, empty when it is well, said after the rung.

    ``asked``: the Node carries the request. ``lost``: how the host is silent, where it is so as a lost one: a reset
    leaves it up, so that this is the rung's end. A reboot silences it by nature.
    """
    done, answer = took_effect(rung, health), answer_to(rung, health)
    if done and not ill:
        return Ended(RungResult.SUCCEEDED)
    if answer is not None and not done and answer.state in HELPERS_WORD:
        return Ended(HELPERS_WORD[answer.state], answer.message)
    if lost and not _reboot(rung):
        return Ended(RungResult.LOST if rung.withdrawn_at is None else RungResult.WITHDRAWN, lost)
    waited = (now - rung.asked_at).total_seconds()
    if waited >= rung.timeout_seconds:
        words = "no other boot reports" if _reboot(rung) and not done else ill
        return Ended(RungResult.TIMED_OUT, words, rebooted=booted_anew(rung, health))
    begun = answer is not None or rung.sent_at is not None
    if not begun and not done and rung.withdrawn_at is None and waited >= SILENT_SECONDS:
        return _unheard(rung, asked=asked)
    return _withdrawn(rung, ill, now, begun=begun, done=done)


HELPERS_WORD: Final = {NodeActionState.REFUSED: RungResult.REFUSED, NodeActionState.FAILED: RungResult.FAILED}


def _reboot(rung: RungRecord) -> bool:
    return rung.kind is NodeActionKind.REBOOT


def _unheard(rung: RungRecord, *, asked: bool) -> Ended:
    if asked:
        return Ended(RungResult.SILENT, "the node's helper did not answer; does one run beside its agent?")
    if rung.by is RebootBy.BACKEND:
        return Ended(RungResult.NOT_ASKED, "something held it up for too long: the pool's lease or a veto")
    return Ended(RungResult.NOT_ASKED, "the request could not be written in time")


def _withdrawn(rung: RungRecord, ill: str, now: datetime, *, begun: bool, done: bool) -> Ended | None:
    """Taken back, and either done or not begun: a helper that is in the middle of it is waited for."""
    if rung.withdrawn_at is None:
        return None
    if done:
        return Ended(RungResult.WITHDRAWN, ill)
    over = now - rung.withdrawn_at >= timedelta(seconds=WITHDRAWN_SECONDS)
    return Ended(RungResult.WITHDRAWN) if over and not begun else None
