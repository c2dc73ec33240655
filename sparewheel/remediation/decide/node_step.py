"""What one look at the node track can come to: the steps, each with what it is about, and when to look again."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum

from sparewheel.api.gpu_pool import GpuPoolSpec
from sparewheel.api.ladder import RungRecord
from sparewheel.api.remediation_policy import RemediationPolicyStatus, VetoRule
from sparewheel.remediation.decide.cancel import CallOff
from sparewheel.remediation.decide.ladder import Ended
from sparewheel.remediation.decide.observations import PodView

HOLD_SECONDS = 10.0
"""An incident that a person holds is looked at this often."""


class NodeAction(StrEnum):
    DRY_RUN = "dry_run"
    OPEN = "open"
    STAND_DOWN = "stand_down"
    """Nothing was done yet and the fault is no longer there."""
    CANCEL = "cancel"
    """A person called it off before anything irreversible was done."""
    LET_GO = "let_go"
    """Called off, and something on the node is waited for first: the spare is given back."""
    TELL_LEFT = "tell_left"
    """Job processes outlive their grace on a node that is to be given back."""
    SUPERSEDE = "supersede"
    """Somebody else removed the node."""
    FENCE = "fence"
    CORDON_ANEW = "cordon_anew"
    """The host's Node was removed and registered anew: it is cordoned like the one before."""
    HOLD = "hold"
    """Repairing is no cure: call a person."""
    FENCE_AGAIN = "fence_again"
    """More is to be done than the cordon, or than the drain under an open breaker."""
    RECOVER = "recover"
    """The node is well again: give back what is ours."""
    JOBS_DONE = "jobs_done"
    """The jobs that the fault hit go their way; the node stayed in service."""
    BEGIN_MENDING = "begin_mending"
    TAKE_RUNG = "take_rung"
    """Journal the next rung."""
    ASK_HELPER = "ask_helper"
    POWER_CYCLE = "power_cycle"
    """Have the pool's capacity backend reboot the host."""
    END_RUNG = "end_rung"
    WITHDRAW = "withdraw"
    """Take the request to the node's helper back."""
    MENDED = "mended"
    LADDER_OVER = "ladder_over"
    RESTORE_SLURM = "restore_slurm"
    VETO = "veto"
    VETO_OVERDUE = "veto_overdue"
    VETO_OVER = "veto_over"
    BEGIN_DRAIN = "begin_drain"
    DELETE_WORKER = "delete_worker"
    EVICT = "evict"
    DELETE_POD = "delete_pod"
    PROVE_OFF = "prove_off"
    FORCE_DELETE = "force_delete"
    DRAINED = "drained"
    RETIRE = "retire"
    CLOSE = "close"


@dataclass(frozen=True, slots=True)
class Todo:
    action: NodeAction
    pod: PodView | None = None
    why: str = ""
    call_off: CallOff | None = None
    rung: RungRecord | None = None
    ended: Ended | None = None
    """How the rung went."""


@dataclass(frozen=True, slots=True)
class NodeStep:
    todo: tuple[Todo, ...] = ()
    waiting_for: str = ""
    look_again_seconds: float = 1.0
    done: bool = False


@dataclass(frozen=True, slots=True)
class Situation:
    """What the decision needs beside the record and what is seen."""

    pool: GpuPoolSpec
    now: datetime
    veto: VetoRule = field(default_factory=VetoRule)
    fault_open: bool | None = True
    """None: no report has come in yet since the controller took over."""
    breaker: RemediationPolicyStatus = field(default_factory=RemediationPolicyStatus)


def wait_for(text: str, seconds: float = 1.0) -> NodeStep:
    return NodeStep(waiting_for=text, look_again_seconds=seconds)
