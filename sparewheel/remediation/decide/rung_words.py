"""The ladder in words: which rungs would be taken, and how each that was taken went. Pure."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from sparewheel.api.enums import Action, NodeActionKind
from sparewheel.api.ladder import RebootBy, Rung, RungRecord, RungResult
from sparewheel.api.remediation import Remediation
from sparewheel.remediation.decide.ladder import Target, next_rung

_KINDS: Final = {NodeActionKind.RESET_GPU: "reset of the GPU", NodeActionKind.REBOOT: "reboot"}


def words_of(rung: RungRecord | Target) -> str:
    """``reset of GPU 0000:17:00``, ``reboot`` or ``power cycle``."""
    if rung.kind is NodeActionKind.RESET_GPU:
        return f"reset of GPU {rung.device}"
    return "reboot" if rung.by is RebootBy.HELPER else "power cycle"


def result_words(rung: RungRecord) -> str:
    """``reset of GPU 0000:17:00 did not help: timed out after 180 s (XID 119 is still open)``."""
    if rung.ended_at is None or rung.result is None:
        return f"{words_of(rung)} is under way"
    detail = f" ({rung.message})" if rung.message else ""
    seconds = f"{(rung.ended_at - rung.asked_at).total_seconds():.0f} s"
    if rung.result is RungResult.SUCCEEDED:
        return f"{words_of(rung)} helped after {seconds}{detail}"
    return f"{words_of(rung)} did not help: {rung.result.value.replace('_', ' ')} after {seconds}{detail}"


def why_over(remediation: Remediation) -> str:
    """Why no rung is left."""
    taken = remediation.status.ladder.rungs
    return "; ".join(result_words(rung) for rung in taken) or "the faults ask for more than a rung can do"


def rungs_ahead(remediation: Remediation) -> str:
    """``reset of GPU 0000:17:00 (180 s), then reboot (900 s)``, if none of them helps; empty where there is none."""
    trial, found = remediation.model_copy(deep=True), list[str]()
    while (target := next_rung(trial)) is not None:
        found.append(f"{words_of(target)} ({target.timeout_seconds} s)")
        failed = RungRecord(
            id=str(len(found)),
            kind=target.kind,
            by=target.by,
            device=target.device,
            asked_at=remediation.spec.fault.first_seen,
            timeout_seconds=target.timeout_seconds,
            result=RungResult.TIMED_OUT,
        )
        trial.status.ladder.rungs.append(failed)
    return ", then ".join(found)


def rule_words(rungs: Iterable[Rung]) -> str:
    """As ``rungs_ahead``, of a ladder that no fault has climbed yet."""
    return ", then ".join(f"{_KINDS[rung.kind]} ({rung.timeout_seconds} s)" for rung in rungs)


def kind_words(asked: Action, kinds: Iterable[NodeActionKind]) -> str:
    """``reset of the GPU, then reboot``: what of a ladder a fault that asks for this climbs; empty for none."""
    climbed = {Action.RESET_GPU: set(NodeActionKind), Action.REBOOT: {NodeActionKind.REBOOT}}.get(asked, set())
    return ", then ".join(_KINDS[kind] for kind in kinds if kind in climbed)
