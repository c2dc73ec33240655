"""How much may be replaced or fenced: at once and within a window, in nodes and in percent of the GPU nodes."""

from __future__ import annotations

from pydantic import Field

from sparewheel.api.base import ApiModel


class ReplacementBudget(ApiModel):
    """Limits on replacing; of those that are set, the stricter holds. Percent are of GPU nodes that take work (the
    sizes of pools, no CPU nodes, no spares), rounded up, so that a pool of any size may replace at least one."""

    at_once: int | None = Field(default=None, ge=1)
    at_once_percent: int | None = Field(default=None, ge=1, le=100)
    per_window: int | None = Field(default=None, ge=1)
    per_window_percent: int | None = Field(default=None, ge=1, le=100)
    window_seconds: int = Field(default=3600, ge=1)
