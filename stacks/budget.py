"""Limits on replacing, of a pool or of all pools."""

from __future__ import annotations

from pydantic import Field

from sparewheel.api.limits import ReplacementBudget
from stacks.base import Area


class Budget(Area):
    """Of the limits that are set the stricter holds; percent are of GPU nodes that take work, rounded up."""

    at_once: int | None = Field(default=None, ge=1, description="replacements under way")
    at_once_percent: int | None = Field(default=None, ge=1, le=100, description="replacements under way, in percent")
    per_window: int | None = Field(default=None, ge=1, description="replacements within window_seconds")
    per_window_percent: int | None = Field(default=None, ge=1, le=100, description="the same in percent")
    window_seconds: int = Field(default=3600, ge=1, description="length of the window")

    def spec(self) -> ReplacementBudget:
        """As the cluster is told."""
        return ReplacementBudget(**dict(self))
