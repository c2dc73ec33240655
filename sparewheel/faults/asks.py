"""What a code asks for, in a sentence for the person who injects it. Pure."""

from __future__ import annotations

from typing import Final

from sparewheel.api.enums import Action
from sparewheel.faults.catalogue import rule_of

_DONE: Final = {
    Action.IGNORE: "is ignored",
    Action.RECORD: "is only recorded: no incident is opened",
    Action.RESTART_JOB: "requeues the node's jobs; the node stays in service",
    Action.CORDON: "cordons the node; its jobs go on",
    Action.RESET_GPU: "fences the node and asks for a reset of the GPU",
    Action.REBOOT: "fences the node and asks for a reboot",
    Action.REPLACE: "fences the node and has it replaced",
}


def asks_for(code: str) -> str:
    """By the catalogue alone: a stack's or a pool's own rule may say otherwise."""
    rule = rule_of(code)
    return f"{code} ({rule.meaning}) {_DONE[rule.action]}, unless a rule of the stack or the pool says otherwise."
