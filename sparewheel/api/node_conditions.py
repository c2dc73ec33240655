"""Node conditions that somebody else writes (node-problem-detector, NVSentinel), and what each asks for."""

from __future__ import annotations

from typing import Final, Literal

from pydantic import Field

from sparewheel.api.base import ApiModel
from sparewheel.api.faults import Action

CONDITION_TYPE: Final = r"^[A-Za-z]([-A-Za-z0-9_./]*[A-Za-z0-9])?$"


class NodeConditionRule(ApiModel):
    """One rule, in RemediationPolicy; the first that fits a condition counts."""

    type: str = Field(pattern=CONDITION_TYPE)
    status: Literal["True", "False"] = "True"
    """With which status it tells a fault; Unknown never does."""
    reason: str = ""
    """Only with this reason; empty: with any."""
    code: str = ""
    """Fault code that it stands for, so that rules and records know it; empty: ``CONDITION <type>``."""
    action: Action

    @property
    def fault_code(self) -> str:
        return self.code or f"CONDITION {self.type}"
