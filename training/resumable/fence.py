"""One writer per run: a newer attempt fences every older one off.

Slurm doesn't wait for the ranks of a node that it gave up, so a rank of attempt 0 may wake up while attempt 1 trains.
Two rules keep it from doing harm:

1. **The fence.** An attempt takes it at its start, before it looks for a checkpoint; a save asks before it publishes,
   and a fenced attempt's save is refused.
2. **The cut.** An attempt records the step that it resumed from. What older attempts publish beyond that step never
   counts. So a save that slips in between the question and the rename, or through a stale file system cache, is never
   loaded.
"""

from __future__ import annotations

from pathlib import Path

from .attempt import Attempt
from .files import make_folder, read_json, write_json

_TAKEN = ".taken"
_START = ".start"


class FencedError(RuntimeError):
    """A newer attempt owns this run: the caller must stop, and must not write."""


class Fence:
    """The fence of the run in `run_dir`, as `attempt` sees it."""

    def __init__(self, run_dir: Path, attempt: Attempt) -> None:
        self.folder = run_dir / "fence"
        self.attempt = attempt

    def take(self) -> None:
        """Fence older attempts off. By rank 0, before it looks for a checkpoint; FencedError for a latecomer."""
        make_folder(self.folder)
        self.check()
        write_json(
            self.folder / f"{self.attempt.name}{_TAKEN}", {"job": self.attempt.job, "attempt": self.attempt.number}
        )
        self.check()

    def check(self) -> None:
        """Return if no newer attempt has taken the fence, else raise FencedError."""
        newest = max(self._attempts(_TAKEN), default=self.attempt)
        if newest > self.attempt:
            raise FencedError(
                f"{self.attempt.name} may not write to {self.folder.parent}: {newest.name} has taken over the run. "
                "Let this process end; its work is in the newer attempt's hands."
            )

    def record_start(self, step: int) -> None:
        """Write down the step this attempt resumed from (0: from nothing). It cuts off older attempts beyond it."""
        write_json(self.folder / f"{self.attempt.name}{_START}", {"step": step})

    def last_valid_step(self, attempt: Attempt) -> int | None:
        """The last step of `attempt` that counts, by the starts of later attempts up to ours; None: no limit."""
        steps = [
            start["step"]
            for later in self._attempts(_START)
            if attempt < later <= self.attempt
            and (start := read_json(self.folder / f"{later.name}{_START}")) is not None
            and isinstance(start.get("step"), int)
        ]
        return min(steps, default=None)

    def _attempts(self, suffix: str) -> list[Attempt]:
        if not self.folder.is_dir():
            return []
        names = (path.name.removesuffix(suffix) for path in self.folder.iterdir() if path.name.endswith(suffix))
        return [attempt for name in names if (attempt := Attempt.parse(name)) is not None]
