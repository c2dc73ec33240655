"""How long a job may run, as Slurm writes it (sbatch's manual, --time)."""

from __future__ import annotations

import re
from typing import Annotated, Final

from pydantic import AfterValidator

UNLIMITED: Final = "UNLIMITED"
MOST_MINUTES: Final = 10 * 366 * 24 * 60
_FORMS: Final = (
    r"(?P<minutes>[0-9]+)(:(?P<seconds>[0-5][0-9]))?",
    r"(?P<hours>[0-9]+):(?P<minutes>[0-5][0-9]):(?P<seconds>[0-5][0-9])",
    r"(?P<days>[0-9]+)-(?P<hours>[01]?[0-9]|2[0-3])(:(?P<minutes>[0-5][0-9])(:(?P<seconds>[0-5][0-9]))?)?",
)
_MINUTES: Final = {"days": 24 * 60, "hours": 60, "minutes": 1, "seconds": 1 / 60}


def _longest_run(text: str) -> str:
    if text == UNLIMITED:
        return text
    found = next((match for form in _FORMS if (match := re.fullmatch(form, text, re.ASCII))), None)
    if found is None:
        msg = f"{text[:40]!r} is no time of Slurm's; write minutes, hours:minutes:seconds, days-hours or {UNLIMITED}"
        raise ValueError(msg)
    minutes = sum(float(count) * _MINUTES[unit] for unit, count in found.groupdict().items() if count)
    if not 1 <= minutes <= MOST_MINUTES:
        msg = f"{text[:40]!r} is not between a minute and ten years; a number alone is minutes, and {UNLIMITED} is none"
        raise ValueError(msg)
    return text


LongestRun = Annotated[str, AfterValidator(_longest_run)]
