"""What the demo says at its end: the figures, what they mean, and what to type next. Pure."""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from dataclasses import dataclass, field

from lab.demo.checks import Check
from lab.demo.facts import Facts
from lab.demo.picture import Bar
from lab.demo.timeline import handed_over_seconds, platform_seconds, resumed_seconds

MEANINGS = (
    "fault: the time of its line in the kernel's log, from which `sparewheel timeline` counts too;",
    "load: from the start of the first attempt's launchers to its first step, which this job needs on any platform;",
    "save: from the strike to the job's last whole checkpoint;",
    "new attempt's launchers: the moment from which only the job's own code runs.",
)


@dataclass(slots=True)
class Runs:
    """Several stories, in their order."""

    seconds: list[float] = field(default_factory=list[float])
    """Fault to the first new step, less what the job itself needs to start."""
    platform: list[float] = field(default_factory=list[float])
    """Fault to the first new step, beyond the job's own save and load."""
    handed_over: list[float] = field(default_factory=list[float])
    """Fault to the new attempt's launchers, beyond the job's own save."""
    failed: list[str] = field(default_factory=list[str])
    whole: list[float] = field(default_factory=list[float])
    """Fault to the first new step, nothing taken off."""
    records: list[str] = field(default_factory=list[str])
    """Names of the incidents."""

    def add(self, facts: Facts, checks: list[Check]) -> None:
        run = len(self.records) + 1
        self.failed += [f"run {run}: {check.name}: {check.detail}" for check in checks if not check.passed]
        self.records.append(facts.record.metadata.name)
        resumed = resumed_seconds(facts)
        if resumed is not None:
            self.whole.append(resumed)
            self.seconds.append(resumed - facts.load_seconds)
            self.platform.append(platform_seconds(facts) or 0.0)
        handed_over = handed_over_seconds(facts)
        if handed_over is not None:
            self.handed_over.append(handed_over)


def figures(told: Runs, what: str) -> list[str]:
    """Medians and worst cases, the whole time first, then what each name means; nothing where no job came back."""
    if not told.seconds:
        return []

    def line(name: str, values: Sequence[float]) -> str:
        middle = statistics.median(values)
        return f"{name}, {what}: median {middle:.1f} s, worst {max(values):.1f} s of {len(values)}"

    return [
        line("fault to first new step", told.whole),
        line("fault to first new step, less load", told.seconds),
        line("fault to first new step, beyond the job's own save and load", told.platform),
        *([line("fault to the new attempt's launchers, less save", told.handed_over)] if told.handed_over else []),
        *(f"  {meaning}" for meaning in MEANINGS),
    ]


def by_track(bars: Sequence[Bar]) -> list[Bar]:
    """Track after track, each in the order of its beginnings."""
    return sorted(bars, key=lambda bar: (bar.track, bar.start_seconds))
