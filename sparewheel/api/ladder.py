"""The ladder: how a node is mended where it is (a reset of the GPU, a reboot) before it is replaced."""

from __future__ import annotations

from enum import StrEnum

from pydantic import Field

from sparewheel.api.base import ApiModel, Time
from sparewheel.api.enums import NodeActionKind


class RebootBy(StrEnum):
    HELPER = "helper"
    """The node's own helper."""
    BACKEND = "backend"
    """The pool's capacity backend, from outside: a power cycle."""


class Rung(ApiModel):
    kind: NodeActionKind
    timeout_seconds: int = Field(ge=30)
    """From the request until the node is well again; after it the next rung is taken."""


class LadderRule(ApiModel):
    """Without rungs nothing is mended where it is: every node that is to be healed is replaced."""

    rungs: list[Rung] = Field(default_factory=list[Rung])
    """Mildest first."""
    mended_count: int = Field(default=2, ge=1)
    """A host that was mended this often within ``mended_window_seconds`` is replaced the next time."""
    mended_window_seconds: int = Field(default=7 * 86400, ge=60)


class RungResult(StrEnum):
    SUCCEEDED = "succeeded"
    FAILED = "failed"
    """The helper says so."""
    REFUSED = "refused"
    """Who was asked touched nothing; the message says why."""
    TIMED_OUT = "timed_out"
    """The node was not well in time, whatever the helper says."""
    SILENT = "silent"
    """No helper answered, so it is asked for nothing more."""
    LOST = "lost"
    """The host, which should have stayed up, fell silent as a lost node does."""
    NOT_ASKED = "not_asked"
    """The request was not taken by the API server, or not made in time."""
    WITHDRAWN = "withdrawn"
    """The request was taken back."""


class RungRecord(ApiModel):
    """One rung that was taken: written down before the node's helper is asked."""

    id: str
    """The request's id: the same again is the same request."""
    kind: NodeActionKind
    by: RebootBy = RebootBy.HELPER
    device: str = ""
    """PCI address of the GPU, for a reset."""
    boot_id: str = ""
    """The boot in which it was asked for."""
    asked_at: Time
    sent_at: Time | None = None
    """When the capacity backend was told to reboot: written down before, and never told again."""
    timeout_seconds: int
    withdrawn_at: Time | None = None
    """When the request was taken back; a helper that had read it may still act on it for a moment."""
    ended_at: Time | None = None
    result: RungResult | None = None
    rebooted: bool = False
    """It ran out of time although the host had rebooted."""
    message: str = ""


class LadderRecord(ApiModel):
    rungs: list[RungRecord] = Field(default_factory=list[RungRecord])
    mended_at: Time | None = None
    """The node is well again: from then on it is given back, and no spare is used."""
    over_at: Time | None = None
    """No rung is left: from then on the node is replaced."""
    why: str = ""
    """Which rung helped, or why none is left."""
