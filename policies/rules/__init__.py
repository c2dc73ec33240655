"""Every rule, room by room."""

from __future__ import annotations

from typing import Final

from policies.model import Rule
from policies.rules import access, capacity, gpus, grace, secrets, workloads

RULES: Final[tuple[Rule, ...]] = (
    *capacity.RULES,
    *grace.RULES,
    *gpus.RULES,
    *workloads.RULES,
    *secrets.RULES,
    *access.RULES,
)
