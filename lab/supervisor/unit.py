"""A unit: one daemon and how to keep it."""

import json
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Literal


@dataclass(frozen=True)
class Unit:
    """What to run and how to stop it.

    `restart` "always" starts it again when it dies; "never" leaves it dead (a machine without power).
    `stop_signal` is sent first, SIGKILL after `stop_seconds`. `autostart` units start with the supervisor.
    """

    name: str
    argv: list[str]
    log: str
    env: dict[str, str] = field(default_factory=dict[str, str])
    restart: Literal["always", "never"] = "always"
    stop_signal: Literal["TERM", "INT", "KILL"] = "TERM"
    stop_seconds: float = 10.0
    autostart: bool = False

    def write(self, folder: Path) -> bool:
        """Write the unit file; True when its content changed."""
        folder.mkdir(parents=True, exist_ok=True)
        path = folder / f"{self.name}.json"
        text = json.dumps(asdict(self), indent=1)
        if path.exists() and path.read_text() == text:
            return False
        part = path.with_suffix(".part")
        part.write_text(text)
        part.rename(path)
        return True


def read_unit(path: Path) -> Unit:
    """The unit of a file; ValueError names the file when it can't be read as one."""
    try:
        return Unit(**json.loads(path.read_text()))
    except (TypeError, json.JSONDecodeError) as error:
        raise ValueError(f"{path} is not a unit file: {error}") from error
