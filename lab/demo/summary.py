"""What the demo says at its end: the figures, what they mean, and what to type next. Pure."""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from dataclasses import dataclass, field

from lab.demo.checks import Check
from lab.demo.facts import Facts
from lab.demo.picture import Bar
from lab.demo.timeline import platform_seconds, resumed_seconds

MEANINGS = (
    "load: from the start of the job's first attempt to its first step, which this job needs on any platform;",
    "less load: what is left of the whole time without the load of the attempt that resumed;",
    "beyond its own save and load: less the job's last save as well, and counted from the kernel log's time.",
)


@dataclass(slots=True)
class Runs:
    """Several stories, in their order."""

    seconds: list[float] = field(default_factory=list[float])
    """Injection to the first new step, less what the job itself needs to start."""
    platform: list[float] = field(default_factory=list[float])
    """The fault's own time to the first new step, beyond the job's own save and load."""
    failed: list[str] = field(default_factory=list[str])
    whole: list[float] = field(default_factory=list[float])
    """Injection to the first new step, nothing taken off."""
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


def figures(told: Runs, what: str) -> list[str]:
    """Medians and worst cases, the whole time first, then what each name means; nothing where no job came back."""
    if not told.seconds:
        return []

    def line(name: str, values: Sequence[float]) -> str:
        middle = statistics.median(values)
        return f"{name}, {what}: median {middle:.1f} s, worst {max(values):.1f} s of {len(values)}"

    return [
        line("injection to first new step", told.whole),
        line("injection to first new step, less load", told.seconds),
        line("fault to first new step, beyond the job's own save and load", told.platform),
        *(f"  {meaning}" for meaning in MEANINGS),
    ]


def by_track(bars: Sequence[Bar]) -> list[Bar]:
    """Track after track, each in the order of its beginnings."""
    return sorted(bars, key=lambda bar: (bar.track, bar.start_seconds))
