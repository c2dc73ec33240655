"""The scheduled drill: a fault on purpose, now and then, so that healing is known to work."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from sparewheel.api.gpu_pool import MAX_POOL_NAME, POOL_NAME
from stacks.base import Area

Schedule = Annotated[str, Field(pattern=r"^[-0-9*/,]+( [-0-9*/,]+){2}( [-0-9A-Za-z*/,]+){2}$")]


class Drill(Area):
    """A fault on purpose on an idle node.

    Each costs a spare until the struck host was rebooted and released; without a free one it fails and hits no node.
    """

    schedule: Schedule = Field(description="when, as cron has it, in UTC, such as '0 9 1,15 * *'")
    pools: list[Annotated[str, Field(pattern=POOL_NAME, max_length=MAX_POOL_NAME)]] = Field(
        default_factory=list[str], description="in which pools; none named: in each"
    )
    fault: str = Field(default="xid79", pattern=r"^xid ?[0-9]{1,4}$", description="the fault that is injected")
    limit_seconds: int = Field(default=600, ge=30, le=86400, description="within which it must be healed")
