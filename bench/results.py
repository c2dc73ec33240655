"""The figures: flat, by name, the newest of each kept beside the others."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path

from lab.toolchain.paths import REPOSITORY

RESULTS = REPOSITORY / "build" / "bench" / "results.json"


def show(figures: Mapping[str, float]) -> None:
    """One line for each."""
    for name, value in figures.items():
        print(f"{name:<48} {value:12.3f}")


def keep(figures: Mapping[str, float], path: Path = RESULTS) -> None:
    """Put the figures into the file; others that are there stay."""
    known: dict[str, float] = json.loads(path.read_text("utf-8")) if path.exists() else {}
    path.parent.mkdir(parents=True, exist_ok=True)
    part = path.with_suffix(".part")
    part.write_text(json.dumps({**known, **figures}, indent=2, sort_keys=True) + "\n", "utf-8")
    part.replace(path)
