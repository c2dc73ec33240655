"""How far a soak has come, in a file: one that was cut goes on where it stopped."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, field
from pathlib import Path


@dataclass(slots=True)
class Failure:
    seed: int
    wrongs: list[str]
    shrunk: str = ""
    """The smallest schedule found that fails too, as JSON."""


@dataclass(slots=True)
class Summary:
    first_seed: int
    wanted: int
    code: str
    """What was played; another code begins anew."""
    done: list[tuple[int, int]] = field(default_factory=list[tuple[int, int]])
    """Ranges of seeds played, each without its end."""
    cpu_seconds: float = 0.0
    world_seconds: float = 0.0
    incidents: int = 0
    writes: int = 0
    failures: list[Failure] = field(default_factory=list[Failure])

    @property
    def played(self) -> int:
        return sum(end - start for start, end in self.done)

    def left(self, size: int) -> list[tuple[int, int]]:
        """Ranges still to play, none longer than ``size``."""
        played = {seed for start, end in self.done for seed in range(start, end)}
        last = self.first_seed + self.wanted
        found: list[tuple[int, int]] = []
        for start in range(self.first_seed, last, size):
            open_ones = [seed for seed in range(start, min(start + size, last)) if seed not in played]
            if open_ones:
                found.append((open_ones[0], open_ones[-1] + 1))
        return found

    def add(self, start: int, end: int) -> None:
        merged: list[tuple[int, int]] = []
        for one in sorted([*self.done, (start, end)]):
            if merged and one[0] <= merged[-1][1]:
                merged[-1] = (merged[-1][0], max(merged[-1][1], one[1]))
            else:
                merged.append(one)
        self.done = merged

    def save(self, path: Path) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        fresh = path.with_suffix(".new")
        fresh.write_text(json.dumps(asdict(self), indent=1))
        fresh.replace(path)

    @classmethod
    def load(cls, path: Path, first_seed: int, wanted: int, code: str) -> Summary:
        """What is there of the same soak of the same code, else a new one."""
        if path.exists():
            raw = json.loads(path.read_text())
            if (raw["first_seed"], raw["code"]) == (first_seed, code):
                raw["failures"] = [Failure(**failure) for failure in raw["failures"]]
                raw["done"] = [(start, end) for start, end in raw["done"]]
                raw["wanted"] = wanted
                return cls(**raw)
        return cls(first_seed, wanted, code)

    def lines(self) -> list[str]:
        each = self.cpu_seconds / max(1, self.played)
        what = (
            f"{self.incidents} incidents, {self.writes} writes, {self.world_seconds / 3600:.1f} h of the world's time"
        )
        found = [f"{self.played} of {self.wanted} schedules from seed {self.first_seed}: {what}, {each:.2f} s CPU each"]
        for failure in self.failures:
            found.append(f"seed {failure.seed} FAILED: {failure.wrongs[0].splitlines()[0][:300]}")
            found += [f"  shrunk: {failure.shrunk}"] if failure.shrunk else []
        found.append(f"{len(self.failures)} failed" if self.failures else "none failed")
        return found
