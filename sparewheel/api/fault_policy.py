"""What is done about a fault: by code or pattern, in the whole cluster (RemediationPolicy) or in one pool (GpuPool)."""

from __future__ import annotations

from pydantic import Field

from sparewheel.api.base import ApiModel
from sparewheel.api.faults import Action


class RepeatRule(ApiModel):
    """The same fault of the same device, seen ``count`` times within ``window_seconds``, asks for ``action``."""

    count: int = Field(ge=2, le=16)
    """A node's report keeps the last 16 sightings."""
    window_seconds: int = Field(ge=1)
    """Reckoned back from the last sighting, by the node's clock."""
    distinct_jobs: bool = False
    """Count jobs, not sightings: the same fault under different jobs is the device's, not the program's."""
    burst_gap_seconds: int = Field(default=0, ge=0)
    """Sightings no further apart than this are one burst and count once; 0: each counts."""
    action: Action


class FaultPolicy(ApiModel):
    """One rule. A field left out is taken from the next rule that sets it, at last from the fault catalogue."""

    code: str
    """``XID 63``, ``GPU_MISSING``, or a pattern with one ``*`` at its end, such as ``XID *``."""
    action: Action | None = None
    detect_only: bool | None = None
    """True: an incident is recorded and told, and nothing is ever done about it."""
    dry_run: bool | None = None
    """True: the record says what would have been done; it is done once this is taken back."""
    repeats: list[RepeatRule] | None = None
