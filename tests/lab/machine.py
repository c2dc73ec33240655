"""A host as tests see it: testinfra over SSH behind a few typed verbs."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import testinfra


@dataclass(frozen=True)
class Answer:
    """What a command said."""

    exit_code: int
    stdout: str
    stderr: str


class Machine:
    """One host by its name in an ssh configuration."""

    def __init__(self, name: str, ssh_config: Path) -> None:
        self.name = name
        self._host: Any = testinfra.get_host(f"ssh://{name}", ssh_config=str(ssh_config))

    def run(self, command: str) -> Answer:
        """Run it as root; any exit code will do."""
        done = self._host.run(command)
        return Answer(int(done.rc), str(done.stdout), str(done.stderr))

    def check(self, command: str) -> str:
        """Run it and return its output without surrounding space; it must succeed."""
        answer = self.run(command)
        assert answer.exit_code == 0, f"'{command}' on {self.name} ended with {answer.exit_code}: {answer.stderr}"
        return answer.stdout.strip()

    def text(self, path: str) -> str:
        """The content of a file."""
        return str(self._host.file(path).content_string)

    def exists(self, path: str) -> bool:
        """Whether there is a file, folder or device."""
        return bool(self._host.file(path).exists)

    def is_device(self, path: str) -> bool:
        """Whether there is a character device."""
        return self.run(f"test -c {path}").exit_code == 0
