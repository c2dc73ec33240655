"""The node's state in one line of a file on the host, for Slurm's own checks: no network stands between."""

from __future__ import annotations

import logging
from datetime import datetime
from pathlib import Path

from sparewheel.agent.report import ACTING, Seen, condition

log = logging.getLogger(__name__)
WORDS = {"True": "ok", "False": "degraded", "Unknown": "unknown"}
MAX_CHARACTERS = 300


def node_state_line(seen: Seen, *, dry_run: bool) -> str:
    """``STATE WORDS``. ``fault`` only where an open fault takes the node out of work; only that fails a check.

    In a dry run the state is ``dry-run``, whatever is open: nothing is done there, so Slurm must drain nothing either.
    """
    status, _, words = condition(seen)
    acting = any(fault.action in ACTING for fault in seen.faults)
    state = "dry-run" if dry_run else "fault" if acting else WORDS[status]
    return f"{state} {' '.join(words.split())}"[:MAX_CHARACTERS] + "\n"


def last_reset(path: Path) -> tuple[str, datetime] | None:
    """PCI address and time of the last GPU that the node's helper reset; None when there was none in this boot."""
    try:
        pci, _, time = path.read_text("utf-8").strip().partition(" ")
        return pci, datetime.fromisoformat(time)
    except (OSError, ValueError):
        return None


class NodeStateFile:
    """Replaces the file whole, so a reader never sees half a line. Its folder is mounted into the workers."""

    def __init__(self, path: Path, *, dry_run: bool) -> None:
        self._path = path
        self._dry_run = dry_run
        self._written = ""

    def write(self, seen: Seen, *, always: bool = False) -> None:
        """On a change, or ``always``. A file that cannot be written is told in the log: reports go on."""
        line = node_state_line(seen, dry_run=self._dry_run)
        if line == self._written and not always:
            return
        fresh = self._path.with_name(f".{self._path.name}.new")
        try:
            self._path.parent.mkdir(parents=True, exist_ok=True)
            fresh.write_text(line, "utf-8")
            fresh.replace(self._path)
        except OSError as error:
            log.warning("Slurm's checks of this node see an old state: %s cannot be written: %s", self._path, error)
            return
        self._written = line
