"""Tiers beside the data centre's: each counts, and none outlives the run that started it."""

from __future__ import annotations

import os
import sys
from contextlib import suppress
from pathlib import Path

import pytest

from tests import tiers

REPORT = '<testsuites><testsuite tests="{tests}" failures="{failures}" errors="0" skipped="0"/></testsuites>'


def _stand_in(monkeypatch: pytest.MonkeyPatch, folder: Path, failing: str = "", more: str = "") -> None:
    """In pytest's place a program that writes a report of two tests; that of the tier ``failing`` has a failure."""
    monkeypatch.setattr(tiers, "REPORTS", folder)

    def command(tier: str) -> list[str]:
        bad = int(tier == failing)
        report = REPORT.format(tests=2, failures=bad)
        lines = [
            "import os, pathlib, sys, time",
            f"pathlib.Path({str(folder / f'{tier}.xml')!r}).write_text({report!r})",
            f"print('said by', {tier!r}, flush=True)",
            more,
            f"sys.exit({bad})",
        ]
        return [sys.executable, "-c", "\n".join(lines)]

    monkeypatch.setattr(tiers, "_command", command)


def test_a_failure_beside_fails_the_whole(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    _stand_in(monkeypatch, tmp_path, failing="simulation")
    assert tiers.main(["unit", "simulation", "lab"]) == 1
    said = capfd.readouterr().out
    assert "said by simulation" in said
    assert "said by unit" not in said, "what a tier that passed said is in its log"
    assert "5 passed, 1 failed" in said
    assert said.index("== beside lab") < said.index("== lab"), "they start before the one that they run beside"


@pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning")
def test_what_could_not_be_started_beside_fails_the_whole(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    _stand_in(monkeypatch, tmp_path)
    monkeypatch.setattr(tiers, "IDLE", (str(tmp_path / "no-such-program"),))
    assert tiers.main(["unit", "simulation", "lab"]) == 1
    assert "2 passed, 2 failed" in capfd.readouterr().out


def test_without_the_data_centre_each_runs_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    _stand_in(monkeypatch, tmp_path)
    assert tiers.main(["unit", "simulation"]) == 0
    assert "beside" not in capfd.readouterr().out


def test_nothing_goes_on_after_an_interruption(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pipe = tmp_path / "pid"
    os.mkfifo(pipe)
    _stand_in(monkeypatch, tmp_path, more=f"pathlib.Path({str(pipe)!r}).write_text(str(os.getpid()))\ntime.sleep(300)")
    seen: list[str] = []
    with suppress(KeyboardInterrupt), tiers.beside(["unit", "components"]) as running:
        seen.append(pipe.read_text())
        raise KeyboardInterrupt
    assert not Path(f"/proc/{seen[0]}").exists()
    assert [outcome.tier for outcome in running.outcomes] == ["unit"], "and none was started after it"
