"""What is to be run and what came of it, the same for a local and a remote command."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

Log = Callable[[str, str], None]
"""Tell the user one line: the name of the stream (`stdout` or `stderr`), then the line."""


class CommandError(Exception):
    """A command that couldn't be run or ended badly; the message goes to the user through the engine."""


@dataclass(frozen=True)
class Invocation:
    """One run of a command.

    text: the command. interpreter: the program and arguments that get it as their last argument (local only).
    folder: where it runs (local only). environment: variables beside the process's own.
    previous: stdout and stderr of the run before, given to it as variables; None: not given.
    """

    text: str
    interpreter: tuple[str, ...] = ("/bin/sh", "-c")
    folder: str | None = None
    environment: dict[str, str] = field(default_factory=dict[str, str])
    stdin: str | None = None
    previous: tuple[str, str] | None = None

    def variables(self) -> dict[str, str]:
        """The variables to add, the previous run's output first so that the user's own win."""
        previous = self.previous
        given = {} if previous is None else {"PULUMI_COMMAND_STDOUT": previous[0], "PULUMI_COMMAND_STDERR": previous[1]}
        return {**given, **self.environment}


@dataclass(frozen=True)
class Result:
    """What a command printed, without the last line's end."""

    stdout: str
    stderr: str

    @classmethod
    def of(cls, stdout: str, stderr: str) -> Result:
        return cls(stdout.removesuffix("\n"), stderr.removesuffix("\n"))


def failed(invocation: Invocation, how: str, stdout: str, stderr: str) -> CommandError:
    """The error of a command that ended badly, with what it printed."""
    said = "\n".join(part for part in (stdout.strip(), stderr.strip()) if part)
    return CommandError(f"{how}: running {invocation.text!r}:\n{said}")
