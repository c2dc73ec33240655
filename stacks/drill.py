"""The scheduled drill: a fault on purpose, now and then, so that healing is known to work."""

from __future__ import annotations

import re
from typing import Annotated, Final

from pydantic import AfterValidator, Field, field_validator

from sparewheel.api.gpu_pool import MAX_POOL_NAME, POOL_NAME
from stacks.base import Area

MONTHS: Final = ["jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec"]
DAYS: Final = ["sun", "mon", "tue", "wed", "thu", "fri", "sat"]
FIELDS: Final[tuple[tuple[str, int, int, list[str]], ...]] = (
    ("minute", 0, 59, []),
    ("hour", 0, 23, []),
    ("day of the month", 1, 31, []),
    ("month", 1, 12, MONTHS),
    ("day of the week", 0, 6, DAYS),
)
"""Name, smallest, largest and words of each field, as a CronJob's schedule has them."""


def _schedule(text: str) -> str:
    fields = text.split(" ")
    if len(fields) != len(FIELDS):
        msg = f"{text[:60]!r} has {len(fields)} fields; a schedule has {', '.join(name for name, *_ in FIELDS)}"
        raise ValueError(msg)
    for field, (name, low, high, words) in zip(fields, FIELDS, strict=True):
        if not all(_is_item(item.lower(), low, high, words) for item in field.split(",")):
            msg = f"{field[:30]!r} is no {name}: {low} to {high}, lists 1,15, ranges 1-5, steps */10"
            raise ValueError(msg)
    return text


def _is_item(item: str, low: int, high: int, words: list[str]) -> bool:
    """``*``, ``5``, ``1-5`` or a word, each with a step behind ``/`` or without."""
    span, slash, step = item.partition("/")
    if slash and not (re.fullmatch("[0-9]{1,3}", step) and int(step) > 0):
        return False
    if span == "*":
        return True
    ends = [words.index(end) + low if end in words else end for end in span.split("-")]
    numbers = [int(end) for end in ends if re.fullmatch("[0-9]{1,2}", str(end))]
    return len(numbers) == len(ends) <= 2 and numbers == sorted(numbers) and low <= numbers[0] <= numbers[-1] <= high


Schedule = Annotated[str, AfterValidator(_schedule)]


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

    @field_validator("pools")
    @classmethod
    def _once_each(cls, names: list[str]) -> list[str]:
        for name in names:
            if names.count(name) > 1:
                msg = f"{name} is there twice; each pool has one drill"
                raise ValueError(msg)
        return names
