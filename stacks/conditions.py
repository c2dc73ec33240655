"""What a stack says about Node conditions: those of node-problem-detector or NVSentinel, the kubelet's DiskPressure."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Literal, Self

from pydantic import Field, field_validator, model_validator

from sparewheel.api.faults import Action
from sparewheel.api.names import OWN_CONDITIONS, USUAL_CONDITIONS
from sparewheel.api.node_conditions import CONDITION_TYPE, NodeConditionRule
from stacks.base import Area
from stacks.explain import shown


class NodeCondition(Area):
    """One condition that tells a fault."""

    type: str = Field(description="the condition's type, as 'kubectl describe node' shows it")
    status: Literal["True", "False"] = Field(default="True", description="with which status it tells a fault")
    reason: str = Field(default="", description="only with this reason; any, when left out")
    code: str = Field(default="", description="fault code that it stands for, such as 'XID 79'; else its own")
    action: Action = Field(description="what it asks for, such as replace")

    @field_validator("type", "reason", "code")
    @classmethod
    def _no_quotes(cls, text: str) -> str:
        if text != text.strip("\"' "):
            msg = f"{shown(text)} has quotes or blanks that no condition has; write it bare"
            raise ValueError(msg)
        return text

    @field_validator("type")
    @classmethod
    def _somebody_elses(cls, kind: str) -> str:
        if kind in OWN_CONDITIONS:
            msg = f"{kind} is the kubelet's or our agent's own, and is looked at already; name another condition"
            raise ValueError(msg)
        if not re.fullmatch(CONDITION_TYPE, kind):
            msg = f"{shown(kind)} can't be the type of a condition: letters, digits, dash, dot, underscore, slash"
            raise ValueError(msg)
        return kind

    @field_validator("code")
    @classmethod
    def _a_code(cls, code: str) -> str:
        if code and not re.fullmatch(r"[A-Z][A-Z0-9_]*( [A-Za-z0-9_./-]+)?", code):
            msg = f"{shown(code)} is no fault code; write one such as 'XID 79' or GPU_OFF_BUS, or leave it out"
            raise ValueError(msg)
        return code

    @model_validator(mode="after")
    def _no_healthy_node(self) -> Self:
        if self.type in USUAL_CONDITIONS and self.status == "False":
            msg = f"{self.type} is False on every healthy node; leave status out, and True tells a fault"
            raise ValueError(msg)
        return self


def condition_rules(conditions: Sequence[NodeCondition]) -> list[NodeConditionRule]:
    """As the cluster is told."""
    return [NodeConditionRule(**dict(condition)) for condition in conditions]
