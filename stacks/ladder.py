"""What is tried on a node before it is replaced, in the whole stack or in one pool."""

from __future__ import annotations

from pydantic import Field, field_validator

from sparewheel.api.enums import NodeActionKind
from sparewheel.api.ladder import LadderRule, Rung
from stacks.base import Area

MILDEST_FIRST = list(NodeActionKind)


class Mended(Area):
    """What mended a node and did not last is no cure."""

    count: int = Field(default=2, ge=1, description="a node that was mended this often is replaced the next time")
    window_seconds: int = Field(default=7 * 86400, ge=60, description="within this time")


class Ladder(Area):
    """A time-out runs from the request to the node's helper until the node is well again; then comes the next rung."""

    rungs: list[NodeActionKind] = Field(
        default_factory=lambda: list(MILDEST_FIRST),
        description="mildest first: reset_gpu, reboot; none: replace at once",
    )
    reset_gpu_seconds: int = Field(default=180, ge=60, le=3600, description="time-out of a reset")
    reboot_seconds: int = Field(default=900, ge=120, le=7200, description="time-out of a reboot")
    mended: Mended = Mended()

    @field_validator("rungs")
    @classmethod
    def _in_order(cls, rungs: list[NodeActionKind]) -> list[NodeActionKind]:
        wanted = [kind for kind in MILDEST_FIRST if kind in rungs]
        if rungs != wanted:
            msg = f"write each rung once, the mildest first: [{', '.join(kind.value for kind in wanted)}]"
            raise ValueError(msg)
        return rungs

    def rule(self) -> LadderRule:
        """As the cluster is told."""
        seconds = {
            NodeActionKind.RESET_GPU: self.reset_gpu_seconds,
            NodeActionKind.REBOOT: self.reboot_seconds,
        }
        return LadderRule(
            rungs=[Rung(kind=kind, timeout_seconds=seconds[kind]) for kind in self.rungs],
            mended_count=self.mended.count,
            mended_window_seconds=self.mended.window_seconds,
        )
