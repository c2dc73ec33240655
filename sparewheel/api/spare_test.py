"""The Slurm test job on a spare: what a pool asks for, and how it went."""

from __future__ import annotations

from pydantic import Field

from sparewheel.api.base import ApiModel, Time

TEST_SECONDS = 30
MAX_TEST_SECONDS = 600


class SpareTestRule(ApiModel):
    """A short job on the spare alone; it must succeed before users' work may run there."""

    enabled: bool = True
    """Warm spares are tested ahead of need, while they stand by."""
    cold: bool = False
    """Spares that come into the cluster only when they are needed are tested as well: this lengthens a healing."""
    command: str = ""
    """Shell text; exit code 0 is a pass. Empty: the GPUs that the node shows are counted."""
    timeout_seconds: int = Field(default=TEST_SECONDS, ge=5, le=MAX_TEST_SECONDS)


class SpareTest(ApiModel):
    """The last test of a spare."""

    time: Time
    boot_id: str = ""
    passed: bool = False
    message: str = ""
    job_id: int | None = None
    """None: Slurm took no job."""
