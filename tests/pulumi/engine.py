"""A stack of the real engine in a folder of its own: file backend, passphrase, a program written by the test."""

from __future__ import annotations

import json
import os
import subprocess
import textwrap
from dataclasses import dataclass
from pathlib import Path
from typing import Any

PROJECT = "name: tried\nruntime: python\n"
TIMEOUT_SECONDS = 120


@dataclass(frozen=True)
class Done:
    """One run of the command line: its exit code and all that it said."""

    code: int
    said: str


class EngineStack:
    """One stack, named `test`, of a program that the test may rewrite between runs."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder / "program"
        backend = folder / "backend"
        self.folder.mkdir()
        backend.mkdir()
        (self.folder / "Pulumi.yaml").write_text(PROJECT)
        self._env = {
            **os.environ,
            "PULUMI_BACKEND_URL": f"file://{backend}?metadata=skip",
            "PULUMI_CONFIG_PASSPHRASE": "only for this test",
            "PULUMI_HOME": str(folder / "home"),
            "PULUMI_SKIP_UPDATE_CHECK": "true",
            "PULUMI_DISABLE_AUTOMATIC_PLUGIN_ACQUISITION": "true",
        }
        self.write("")
        self.run("stack", "init", "test")

    def write(self, program: str) -> None:
        """Make `program` the stack's program."""
        (self.folder / "__main__.py").write_text(textwrap.dedent(program))

    def run(self, *arguments: str) -> Done:
        """Run the command line and return what came of it, good or bad."""
        done = subprocess.run(
            ["pulumi", *arguments, "--non-interactive", "--color=never"],
            cwd=self.folder,
            env=self._env,
            capture_output=True,
            text=True,
            check=False,
            timeout=TIMEOUT_SECONDS,
        )
        return Done(done.returncode, done.stdout + done.stderr)

    def up(self, program: str | None = None) -> Done:
        """`pulumi up`, of `program` where one is given; the test fails where it fails."""
        done = self.try_up(program)
        assert done.code == 0, done.said
        return done

    def try_up(self, program: str | None = None) -> Done:
        """`pulumi up` that may fail."""
        if program is not None:
            self.write(program)
        return self.run("up", "--yes", "--skip-preview")

    def unchanged(self) -> Done:
        """`pulumi preview --expect-no-changes`."""
        return self.run("preview", "--expect-no-changes")

    def destroy(self) -> None:
        """`pulumi destroy`."""
        done = self.run("destroy", "--yes", "--skip-preview")
        assert done.code == 0, done.said

    def outputs(self, *, reveal: bool = False) -> dict[str, Any]:
        """The stack's outputs; secrets only on demand."""
        shown = ["--show-secrets"] if reveal else []
        done = self.run("stack", "output", "--json", *shown)
        assert done.code == 0, done.said
        read: dict[str, Any] = json.loads(done.said)
        return read

    def state(self) -> str:
        """The stack's exported state as text, secrets encrypted."""
        done = self.run("stack", "export")
        assert done.code == 0, done.said
        return done.said
