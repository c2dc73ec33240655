"""A seed of the soak is the same play in each process: uids come in the order of what is made."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from tests.soak.schedule import make_schedule

ROOT = Path(__file__).parents[2]


def played(order: str, path: Path) -> str:
    """What a process prints; Python draws the order of its sets from ``order``."""
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "PYTHONHASHSEED": order}
    command = [sys.executable, "-m", "tests.soak", "--play", str(path)]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=60, check=True, cwd=ROOT)
    return done.stdout


def test_one_seed_is_one_play_in_each_process(tmp_path: Path) -> None:
    path = tmp_path / "schedule.json"
    path.write_text(make_schedule(0).to_json(), "utf-8")
    first, second = played("1", path), played("2", path)
    assert "requests" in first
    assert first == second
