"""What a job reports of itself in its ``extra`` field: its attempt and its first new step."""

from __future__ import annotations

import json
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, cast


@dataclass(frozen=True, slots=True)
class Progress:
    attempt: int
    first_step: int
    first_step_time: datetime
    resumed_from_step: int | None = None
    """None: no checkpoint was found and the attempt began at the beginning."""


def read_progress(extra: str) -> Progress | None:
    """The report, or None where there is none; a field of the user's own making is none."""
    try:
        whole: Any = json.loads(extra) if extra else None
    except ValueError:
        return None
    if not isinstance(whole, dict):
        return None
    report = cast("dict[str, Any]", whole).get("sparewheel")
    if not isinstance(report, dict):
        return None
    fields = cast("dict[str, Any]", report)
    try:
        when = datetime.fromisoformat(str(fields["first_step_time"]))
        resumed = fields.get("resumed_from_step")
        return Progress(
            attempt=int(fields["attempt"]),
            first_step=int(fields["first_step"]),
            first_step_time=when.replace(tzinfo=UTC) if when.tzinfo is None else when.astimezone(UTC),
            resumed_from_step=None if resumed is None else int(resumed),
        )
    except (KeyError, TypeError, ValueError):
        return None
