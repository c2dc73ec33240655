"""Run the tiers of the tests one after the other and say truthfully how each went.

Each tier is its own pytest process, so that none leaves anything in another. pytest's output goes to the terminal as
it comes; at the end each tier has one line, and the last line counts every test.

The data centre's tier mostly waits. Tiers that need nothing but processors run beside it at idle priority, so they
take what it leaves and nothing that it needs; what they say is kept in a log, and shown where one has failed.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
import xml.etree.ElementTree as ET
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from threading import Thread

REPORTS = Path("build/tests")
BUDGET_SECONDS = {
    "unit": 90,
    "simulation": 120,
    "components": 60,
    "pages": 60,
    "api": 160,
    "pulumi": 230,
    "training": 130,
    "lab": 680,
}
"""How long each tier may take on two cores with a warm cache; the four that don't run beside another make 20 min."""
SIDE_BY_SIDE = {
    "unit": "load",
    "simulation": "load",
    "components": "load",
    "api": "loadfile",
    "pulumi": "loadfile",
    "training": "worksteal",
}
"""Tiers whose tests (or whose files of tests) share nothing: as many at once as the machine has cores."""
WAITS = "lab"
ONLY_PROCESSORS = ("unit", "simulation", "components", "pages")
"""Tiers without a wait and without a limit in seconds that a busy machine could break."""
IDLE = ("sh", "-c", 'echo 19 > /proc/self/autogroup; exec chrt --idle 0 "$@"', "idle")
"""Runs what follows, in a session of its own, only while a processor has nothing else to do (sched(7): SCHED_IDLE,
and the lowest weight for the session's autogroup)."""


@dataclass(frozen=True)
class Outcome:
    """How a tier went. exit_code is pytest's own; 5 means that it found no test."""

    tier: str
    passed: int
    failed: int
    skipped: int
    seconds: float
    exit_code: int
    beside: bool = False

    @property
    def good(self) -> bool:
        return self.exit_code == 0 and self.failed == 0 and self.passed > 0

    def line(self) -> str:
        late = " (over its budget)" if self.seconds > BUDGET_SECONDS[self.tier] else ""
        budget = f"beside {WAITS}" if self.beside else f"of {BUDGET_SECONDS[self.tier]} s{late}"
        verdict = "ok" if self.good else f"NOT OK, pytest's exit code {self.exit_code}"
        return (
            f"{self.tier:<11} {self.passed:>4} passed {self.failed:>3} failed {self.skipped:>3} skipped "
            f"{self.seconds:>7.1f} s {budget}  {verdict}"
        )


def run(tier: str) -> Outcome:
    """Run one tier's folder with pytest."""
    print(f"== {tier}", flush=True)
    started = time.monotonic()
    return _outcome(tier, subprocess.run(_command(tier), check=False).returncode, time.monotonic() - started)


class Beside:
    """Tiers that run one after the other at idle priority, in a thread that starts them and reads how they went."""

    def __init__(self, tiers: list[str]) -> None:
        self.outcomes: list[Outcome] = []
        self._tiers = tiers
        self._process: subprocess.Popen[bytes] | None = None
        self._stopped = False
        self._thread = Thread(target=self._run)

    def _run(self) -> None:
        for tier in self._tiers:
            started = time.monotonic()
            with (REPORTS / f"{tier}.log").open("wb") as log:
                if self._stopped:
                    return
                self._process = subprocess.Popen(
                    [*IDLE, *_command(tier)], stdout=log, stderr=subprocess.STDOUT, start_new_session=True
                )
                code = self._process.wait()
            outcome = _outcome(tier, code, time.monotonic() - started, beside=True)
            self.outcomes.append(outcome)
            print(f"\n== beside: {outcome.line()}", flush=True)

    def start(self) -> None:
        if self._tiers:
            print(f"== beside {WAITS}, while processors are idle: {' '.join(self._tiers)}", flush=True)
        self._thread.start()

    def finish(self) -> list[Outcome]:
        """Wait for the rest, and show what those said that failed."""
        self._thread.join()
        for outcome in [one for one in self.outcomes if not one.good]:
            print(f"\n== {outcome.tier}\n{(REPORTS / f'{outcome.tier}.log').read_text()}", flush=True)
        not_run = self._tiers[len(self.outcomes) :]  # their thread broke: a tier that didn't run has not passed
        return self.outcomes + [Outcome(tier, 0, 1, 0, 0.0, 1, beside=True) for tier in not_run]

    def stop(self) -> None:
        """Nothing of it goes on. Harmless where all has ended."""
        self._stopped = True
        if self._process is not None and self._process.poll() is None:
            os.killpg(self._process.pid, signal.SIGTERM)
        self._thread.join()


@contextmanager
def beside(tiers: list[str]) -> Iterator[Beside]:
    """The tiers at idle priority; ended with the block, also where it fails or is interrupted."""
    running = Beside(tiers)
    running.start()
    try:
        yield running
    finally:
        running.stop()


def _command(tier: str) -> list[str]:
    report = REPORTS / f"{tier}.xml"
    report.unlink(missing_ok=True)
    command = [sys.executable, "-m", "pytest", "-q", f"tests/{tier}", f"--junitxml={report}"]
    if tier not in SIDE_BY_SIDE:
        return command
    # By default the files with the fewest tests come last, which here are the longest tests: one core would wait.
    return [*command, "-n", "auto", "--no-loadscope-reorder", "--dist", SIDE_BY_SIDE[tier]]


def _outcome(tier: str, code: int, seconds: float, *, beside: bool = False) -> Outcome:
    passed, failed, skipped = _counts(REPORTS / f"{tier}.xml")
    if code != 0 and failed == 0:
        failed = 1  # pytest itself broke: a tier that didn't run has not passed
    return Outcome(tier, passed, failed, skipped, seconds, code, beside)


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
    gaps = [tier for tier in tiers if WAITS in tiers and tier in ONLY_PROCESSORS]
    outcomes = [run(tier) for tier in tiers if tier != WAITS and tier not in gaps]
    if WAITS in tiers:
        with beside(gaps) as others:
            outcomes.append(run(WAITS))
            outcomes += others.finish()
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
