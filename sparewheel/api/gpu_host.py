"""GpuHost: one machine of a pool. Written by capacity code only, never by Pulumi; its claim is a compare-and-swap."""

from __future__ import annotations

from enum import StrEnum
from typing import ClassVar

from pydantic import Field

from sparewheel.api.base import ApiModel, ApiObject, Time
from sparewheel.api.spare_test import SpareTest


class HostPhase(StrEnum):
    SPARE = "Spare"
    JOINING = "Joining"
    CHECKING = "Checking"
    ACTIVE = "Active"
    DRAINING = "Draining"
    QUARANTINED = "Quarantined"
    GONE = "Gone"


class Claim(ApiModel):
    """Who holds the host. ``owner`` is an idempotency key such as ``remediation/NAME`` or ``pool/NAME@GENERATION``."""

    owner: str
    purpose: str = ""
    time: Time


class GpuHostSpec(ApiModel):
    pool: str
    host: str
    """Name in the inventory (machines) or of the Node (warm)."""
    provider_id: str
    """``machines://HOST`` or the Node's own providerID."""
    instance_type: str = ""
    fabric_block: str = ""
    nvlink_domain: str = ""
    """Hosts whose GPUs share one NVLink fabric carry the same name; empty where a host is a domain of its own."""
    resources: dict[str, int] = Field(default_factory=dict[str, int])
    """What the inventory says that the host has, by resource name, such as ``nvidia.com/gpu: 8``."""


class HostVerb(StrEnum):
    RELEASE = "release"
    QUARANTINE = "quarantine"


class HostRequest(ApiModel):
    """What a person wants done with a host: JSON in an annotation, done by capacity."""

    verb: HostVerb
    by: str
    time: Time
    reason: str
    clear_lemon: bool = False
    repaired: bool = False
    """The person vouches that it was repaired without a reboot: the boot that was quarantined may come back."""


class Repair(ApiModel):
    """One stay in quarantine that ended: how long a host lacks, for the need of spares."""

    quarantined_at: Time
    released_at: Time


class GpuHostStatus(ApiModel):
    phase: HostPhase = HostPhase.SPARE
    node_name: str | None = None
    claim: Claim | None = None
    since: Time | None = None
    node_missing_since: Time | None = None
    """Since when an active host's Node is not there, by whoever removed it."""
    boot_id: str | None = None
    """Boot id last seen while Active."""
    refused_boot_id: str | None = None
    """Boot id at the moment it was quarantined: this incarnation never serves again."""
    reason: str = ""
    quarantined_at: Time | None = None
    quarantine_reason: str = ""
    """Why it was quarantined; kept while it is checked for its release."""
    checked_at: Time | None = None
    """When it last passed all checks."""
    slurm_test: SpareTest | None = None
    """The last Slurm test job while it stood by as a warm spare."""
    test_job_id: int | None = None
    """Of the one that is under way: its processes are meant to be there."""
    lemon: bool = False
    """It struck too often: never a spare until a person clears it."""
    cleared_at: Time | None = None
    """When a person last cleared it of being a lemon; incidents before that no longer count."""
    released_by: str = ""
    """Who released it from quarantine last, when and why."""
    repairs: list[Repair] = Field(default_factory=list[Repair])
    """The last stays in quarantine, newest last."""


class GpuHost(ApiObject):
    KIND: ClassVar[str] = "GpuHost"
    PLURAL: ClassVar[str] = "gpuhosts"
    SHORT_NAMES: ClassVar[tuple[str, ...]] = ("gh",)
    COLUMNS: ClassVar[tuple[tuple[str, str, str], ...]] = (
        ("Pool", "string", ".spec.pool"),
        ("Phase", "string", ".status.phase"),
        ("Node", "string", ".status.nodeName"),
        ("Claim", "string", ".status.claim.owner"),
        ("Lemon", "boolean", ".status.lemon"),
        ("Reason", "string", ".status.reason"),
    )

    spec: GpuHostSpec
    status: GpuHostStatus = Field(default_factory=GpuHostStatus)
