"""Run the tiers of the tests one after the other and say truthfully how each went.

Each tier is its own pytest process, so that none leaves anything in another. pytest's output goes to the terminal as
it comes; at the end each tier has one line, and the last line counts every test.
"""

from __future__ import annotations

import subprocess
import sys
import time
import xml.etree.ElementTree as ET
from dataclasses import dataclass
from pathlib import Path

REPORTS = Path("build/tests")
BUDGET_SECONDS = {
    "unit": 90,
    "simulation": 120,
    "components": 60,
    "api": 150,
    "pulumi": 200,
    "training": 130,
    "lab": 450,
}
"""How long each tier may take on two cores with a warm cache."""
SIDE_BY_SIDE = {
    "unit": "load",
    "simulation": "load",
    "components": "load",
    "api": "loadfile",
    "pulumi": "loadfile",
    "training": "load",
}
"""Tiers whose tests (or whose files of tests) share nothing: as many at once as the machine has cores."""


@dataclass(frozen=True)
class Outcome:
    """How a tier went. exit_code is pytest's own; 5 means that it found no test."""

    tier: str
    passed: int
    failed: int
    skipped: int
    seconds: float
    exit_code: int

    @property
    def good(self) -> bool:
        return self.exit_code == 0 and self.failed == 0 and self.passed > 0

    def line(self) -> str:
        late = " (over its budget)" if self.seconds > BUDGET_SECONDS[self.tier] else ""
        verdict = "ok" if self.good else f"NOT OK, pytest's exit code {self.exit_code}"
        return (
            f"{self.tier:<11} {self.passed:>4} passed {self.failed:>3} failed {self.skipped:>3} skipped "
            f"{self.seconds:>7.1f} s of {BUDGET_SECONDS[self.tier]} s{late}  {verdict}"
        )


def run(tier: str) -> Outcome:
    """Run one tier's folder with pytest."""
    report = REPORTS / f"{tier}.xml"
    report.unlink(missing_ok=True)
    print(f"== {tier}", flush=True)
    started = time.monotonic()
    command = [sys.executable, "-m", "pytest", "-q", f"tests/{tier}", f"--junitxml={report}"]
    command += ["-n", "auto", "--dist", SIDE_BY_SIDE[tier]] if tier in SIDE_BY_SIDE else []
    code = subprocess.run(command, check=False).returncode
    passed, failed, skipped = _counts(report)
    if code != 0 and failed == 0:
        failed = 1  # pytest itself broke: a tier that didn't run has not passed
    return Outcome(tier, passed, failed, skipped, time.monotonic() - started, code)


def _counts(report: Path) -> tuple[int, int, int]:
    """Passed, failed (with errors) and skipped, from pytest's report; nothing where it wrote none."""
    if not report.exists():
        return 0, 0, 0
    suites = list(ET.parse(report).getroot().iter("testsuite"))
    total, failures, errors, skipped = (
        sum(int(suite.get(name, "0")) for suite in suites) for name in ("tests", "failures", "errors", "skipped")
    )
    return max(0, total - failures - errors - skipped), failures + errors, skipped


def main(tiers: list[str]) -> int:
    """Run every tier named, also after one has failed; 0 only where all passed."""
    unknown = [tier for tier in tiers if tier not in BUDGET_SECONDS]
    if unknown or not tiers:
        print(f"No such tier: {' '.join(unknown) or '(none given)'}. There are: {' '.join(BUDGET_SECONDS)}.")
        return 2
    REPORTS.mkdir(parents=True, exist_ok=True)
    outcomes = [run(tier) for tier in tiers]
    print("\n== Summary")
    for outcome in outcomes:
        print(outcome.line())
    skipped = sum(outcome.skipped for outcome in outcomes)
    tail = f", {skipped} skipped" if skipped else ""
    passed, failed = sum(outcome.passed for outcome in outcomes), sum(outcome.failed for outcome in outcomes)
    print(f"{passed} passed, {failed} failed{tail}")
    return 0 if all(outcome.good for outcome in outcomes) else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
