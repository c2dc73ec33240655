"""The stage ``mended``: jobs and pods leave the node, then rung by rung its helper is asked, until it is well. Pure.

Where the helper can't be asked for a reboot, the pool's capacity backend is, if it can. Nothing is asked while anything
may still run there. A rung under way goes on whatever vetoes come; the next one waits.
"""

from __future__ import annotations

from datetime import timedelta
from typing import Final

from sparewheel.api.enums import NodeActionKind
from sparewheel.api.faults import Action
from sparewheel.api.ladder import RebootBy, RungRecord, RungResult
from sparewheel.api.names import AGENT_APP_NAME, ANNOTATION_NODE_ACTION
from sparewheel.api.node_action import to_annotation
from sparewheel.api.remediation import FenceKind, NodeStage, Remediation
from sparewheel.remediation.decide.drain import agent_says_gone, deadline_over, evictable, still_running
from sparewheel.remediation.decide.ladder import (
    CLIMBS,
    HELPERS_WORD,
    WITHDRAWN_SECONDS,
    Ended,
    Target,
    answer_to,
    booted_anew,
    how_it_ended,
    hung,
    next_rung,
    open_rung,
    request_of,
    stays_first,
    took_effect,
    untaken_devices,
)
from sparewheel.remediation.decide.leaving import others_leave
from sparewheel.remediation.decide.node_step import NodeAction, NodeStep, Situation, Todo, wait_for
from sparewheel.remediation.decide.observations import (
    HealthView,
    NodeView,
    Observations,
    PodView,
    SlurmNodeView,
    Unknown,
)
from sparewheel.remediation.decide.record import stage_record, started
from sparewheel.remediation.decide.recovery import not_well, unheard
from sparewheel.remediation.decide.rung_words import why_over, words_of
from sparewheel.remediation.decide.silence import Silence
from sparewheel.remediation.decide.treated import planned

STRAGGLE_SECONDS: Final = 60.0
"""Jobs whose end nobody saw for this long after their grace: the node is replaced rather than mended."""
_LONG_WAIT_SECONDS: Final = 5.0
_WORDLESS: Final = "its helper had not answered"


# -------------------------------------------------------------------- a rung under way
def rung_step(
    remediation: Remediation, seen: Observations, situation: Situation, *, called_off: bool = False
) -> NodeStep | None:
    """What becomes of the rung under way; None where there is none."""
    rung = open_rung(remediation.status)
    if rung is None:
        return None
    health, now = _health(seen), situation.now
    if not called_off and planned(remediation) not in CLIMBS:
        return _ends(rung, Ended(RungResult.WITHDRAWN, "more is asked for than a rung can do"))
    if called_off and rung.withdrawn_at is None:
        return NodeStep((Todo(NodeAction.WITHDRAW, rung=rung),))
    carried = isinstance(seen.node, NodeView) and _carries(seen.node, rung)
    ill = why_ill(remediation, rung, seen)
    lost = _lost(seen, situation)
    ended = _own_part(remediation, rung, health) or how_it_ended(rung, health, ill, now, asked=carried, lost=lost)
    if ended is not None:
        return _ends(rung, ended, well=not ill)
    by_backend = rung.by is RebootBy.BACKEND
    who = "the capacity backend" if by_backend else "the node's helper"
    words = f"{words_of(rung)} by {who}, for up to {rung.timeout_seconds} s"
    if rung.withdrawn_at is not None:
        return wait_for(f"{words_of(rung)}, which may have begun before it was taken back")
    begun = answer_to(rung, health) is not None or rung.sent_at is not None
    if carried or begun or booted_anew(rung, health):
        return wait_for(words)
    stays = _who_stays(remediation, rung.by, seen, situation)
    ask = NodeAction.POWER_CYCLE if by_backend else NodeAction.ASK_HELPER
    return wait_for(stays) if stays else NodeStep((Todo(ask, rung=rung),), words)


def _ends(rung: RungRecord, ended: Ended, *, well: bool = False) -> NodeStep:
    done = ended.result is RungResult.SUCCEEDED and well
    return NodeStep((Todo(NodeAction.MENDED if done else NodeAction.END_RUNG, rung=rung, ended=ended),))


def _carries(node: NodeView, rung: RungRecord) -> bool:
    return node.annotations.get(ANNOTATION_NODE_ACTION) == to_annotation(request_of(rung))


def _own_part(remediation: Remediation, rung: RungRecord, health: HealthView | None) -> Ended | None:
    """One GPU of several is well again; the next one's reset need not wait for the time-out of this one's."""
    others = planned(remediation) is Action.RESET_GPU and untaken_devices(remediation)
    if health is None or not rung.device or not others or not took_effect(rung, health) or unheard(health):
        return None
    still = any(fault.device == rung.device for fault in health.faults)
    return None if still else Ended(RungResult.SUCCEEDED)


# -------------------------------------------------------------------- the next rung
def mending_step(
    remediation: Remediation, node: NodeView, seen: Observations, situation: Situation, *, vetoing: bool
) -> NodeStep | None:
    """The next rung, or none left; None where the node is to be replaced. ``vetoing``: vetoes were set aside."""
    if not stays_first(remediation):
        return None
    status = remediation.status
    if not started(status, NodeStage.MENDED):
        return NodeStep((Todo(NodeAction.BEGIN_MENDING),))
    last = status.ladder.rungs[-1] if status.ladder.rungs else None
    if last is not None and last.result is RungResult.SUCCEEDED and not why_ill(remediation, last, seen):
        return NodeStep((Todo(NodeAction.MENDED, rung=last, ended=Ended(RungResult.SUCCEEDED)),))
    target = next_rung(remediation)
    late = _late(remediation, last, seen, situation)
    if late is not None and last is not None and (target is not None or last.kind is NodeActionKind.REBOOT):
        return late
    if target is None:
        return NodeStep((Todo(NodeAction.LADDER_OVER, why=why_over(remediation)),))
    pods = seen.pods if isinstance(seen.pods, tuple) else ()
    over = deadline_over(remediation, situation.pool.drain_deadline_seconds, situation.now)
    leaving = others_leave(evictable(pods, AGENT_APP_NAME, vetoing=vetoing), node, situation.now, over=over)
    jobs = jobs_left(remediation, target.by, seen, situation)
    if jobs and _too_long(remediation, situation):
        why = f"no {words_of(target)}: {jobs} not seen to end {STRAGGLE_SECONDS:.0f} s after the grace"
        return NodeStep((Todo(NodeAction.LADDER_OVER, why=why),))
    waits = (*((f"{jobs} to end, before the {words_of(target)}",) if jobs else ()), *leaving.waits)
    if jobs or leaving.still_there:
        pace = _LONG_WAIT_SECONDS if status.fence is FenceKind.DRAIN else 1.0
        return NodeStep(leaving.todo, waits[0] if waits else "other pods to leave", pace)
    rung = _rung(remediation, target, seen, situation)
    return NodeStep((Todo(NodeAction.TAKE_RUNG, rung=rung),))


def _late(
    remediation: Remediation, last: RungRecord | None, seen: Observations, situation: Situation
) -> NodeStep | None:
    """A helper that was silent may have read its request just before that was taken back: no second reboot on top.

    One that reboots the host without a word has its rung's whole time for it, and may have helped. One that was asked
    for a reset, on a host that is lost since, has not.
    """
    if last is None or last.ended_at is None or last.result is not RungResult.SILENT:
        return None
    health, now = _health(seen), situation.now
    rebooted, answer = booted_anew(last, health), answer_to(last, health)
    if took_effect(last, health) and not why_ill(remediation, last, seen):
        return NodeStep((Todo(NodeAction.MENDED, rung=last, ended=Ended(RungResult.SUCCEEDED, _WORDLESS)),))
    refused = answer is not None and answer.state in HELPERS_WORD
    lost = last.kind is NodeActionKind.RESET_GPU and bool(_lost(seen, situation))
    goes_on = not lost and (rebooted or (answer is not None and not refused) or bool(unheard(health)))
    if goes_on and now < last.asked_at + timedelta(seconds=last.timeout_seconds):
        return wait_for(f"a {words_of(last)} that may be under way, though the helper did not answer in time")
    if rebooted or answer is not None:
        what = "the host rebooted, which did not help" if rebooted else f"{words_of(last)}: the helper answered late"
        return NodeStep((Todo(NodeAction.LADDER_OVER, why=what),))
    if now - last.ended_at >= timedelta(seconds=WITHDRAWN_SECONDS):
        return None
    return wait_for("a helper that may have read its request in the last moment")


def removed_step(remediation: Remediation) -> NodeStep | None:
    """The Node is gone, or registered anew, perhaps in the middle of a reboot: nothing of it is left to mend."""
    why, rung = "the Node was removed or registered anew", open_rung(remediation.status)
    if rung is not None:
        return _ends(rung, Ended(RungResult.WITHDRAWN, why))
    return NodeStep((Todo(NodeAction.LADDER_OVER, why=why),)) if stays_first(remediation) else None


def _rung(remediation: Remediation, target: Target, seen: Observations, situation: Situation) -> RungRecord:
    health = _health(seen)
    return RungRecord(
        id=f"{remediation.metadata.name}.{len(remediation.status.ladder.rungs) + 1}",
        kind=target.kind,
        by=target.by,
        device=target.device,
        boot_id=health.boot_id if health is not None and health.boot_id else remediation.spec.boot_id,
        asked_at=situation.now,
        timeout_seconds=target.timeout_seconds,
    )


def _too_long(remediation: Remediation, situation: Situation) -> bool:
    """Under an open breaker jobs run on for as long as they like; else the wait for them, or for the report after the
    rung before, has an end."""
    status = remediation.status
    begun = stage_record(status, NodeStage.MENDED)
    if status.fence is FenceKind.DRAIN or begun is None:
        return False
    marks = (status.owned.slurm_struck_at, *(rung.ended_at for rung in status.ladder.rungs))
    since = max(begun.started_at, *(mark for mark in marks if mark is not None))
    return situation.now >= since + timedelta(seconds=remediation.spec.grace_seconds + STRAGGLE_SECONDS)


# -------------------------------------------------------------------- who is still there
def jobs_left(remediation: Remediation, by: RebootBy, seen: Observations, situation: Situation) -> str:
    """Empty when both the agent and Slurm say that no job is there; a grace that is over is no proof. ``by``: who is to
    be asked for the next rung."""
    status = remediation.status
    if status.jobs_listed_at is None or (status.fence is not FenceKind.NONE and status.owned.slurm_struck_at is None):
        return "the strike on the Slurm node"
    if not agent_says_gone(_health(seen)) and not _hangs(remediation, by, seen, situation):
        return "the job processes on the node"
    if isinstance(seen.slurm_node, Unknown):
        return f"the look-up of the Slurm node ({seen.slurm_node.error})"
    busy = isinstance(seen.slurm_node, SlurmNodeView) and seen.slurm_node.busy
    runs_on = status.fence is FenceKind.DRAIN and still_running(remediation)
    return "the jobs of the Slurm node" if busy or runs_on else ""


def _hangs(remediation: Remediation, by: RebootBy, seen: Observations, situation: Situation) -> bool:
    """Did it hang in its reboot, or was it lost in a rung? It has no agent that could speak; nobody was left there when
    it was asked. It can only be power cycled."""
    taken = remediation.status.ladder.rungs
    lost = bool(taken) and bool(_lost(seen, situation))
    silent = by is RebootBy.BACKEND and bool(unheard(seen.health))
    return silent and (lost or any(hung(rung) for rung in taken))


def _lost(seen: Observations, situation: Situation) -> str:
    """How the host is silent, where agent and kubelet are so for as long as a lost node's; else empty."""
    health = _health(seen)
    if health is None or not isinstance(seen.node, NodeView):
        return ""
    silence = Silence(health.heard_seconds_ago, health.kubelet_silent_seconds, seen.node.ready is None)
    return silence.words if silence.lost(situation.pool.node_lost_seconds) else ""


def _who_stays(remediation: Remediation, by: RebootBy, seen: Observations, situation: Situation) -> str:
    """Looked at again right before the helper is asked."""
    if isinstance(seen.pods, Unknown):
        return f"the look-up of the node's pods ({seen.pods.error})"
    return jobs_left(remediation, by, seen, situation)


# -------------------------------------------------------------------- is it well again
def why_ill(remediation: Remediation, rung: RungRecord, seen: Observations) -> str:
    """Empty when the node may serve again: Ready, all GPUs on offer, its agent's word since the rung, its slurmd."""
    if not isinstance(seen.node, NodeView) or seen.node.ready is not True:
        return "the Node is not Ready"
    return not_well(remediation, seen.node, seen.health) or _slurmd_missing(remediation, rung, seen)


def _slurmd_missing(remediation: Remediation, rung: RungRecord, seen: Observations) -> str:
    """After a reboot the worker's slurmd registers anew. A worker that had to leave comes back with the uncordon."""
    if not booted_anew(rung, _health(seen)) or not remediation.status.owned.slurm_down:
        return ""
    if isinstance(seen.pods, Unknown) or isinstance(seen.slurm_node, Unknown):
        return "whether its slurmd is back can't be told"
    if not any(_serves(pod) for pod in seen.pods) or not isinstance(seen.slurm_node, SlurmNodeView):
        return ""
    began = seen.slurm_node.slurmd_start_time
    anew = began is not None and began != remediation.status.owned.slurmd_started_before
    return "" if anew and seen.slurm_node.registered else f"Slurm node {seen.slurm_node.name} did not register anew"


def _serves(pod: PodView) -> bool:
    return pod.worker and not pod.finished and not pod.deleting


def _health(seen: Observations) -> HealthView | None:
    return seen.health if isinstance(seen.health, HealthView) else None
