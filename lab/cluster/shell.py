"""Running a command whose failure is an error with its output."""

import subprocess
from collections.abc import Mapping, Sequence


class CommandError(RuntimeError):
    """A command ended non-zero; the message has the command and the end of its output."""


def run(
    argv: Sequence[str], *, timeout_seconds: float = 60, stdin: str | None = None, env: Mapping[str, str] | None = None
) -> str:
    """Standard output of the command."""
    try:
        done = subprocess.run(
            argv, check=False, capture_output=True, text=True, timeout=timeout_seconds, input=stdin, env=env
        )
    except FileNotFoundError as error:
        raise CommandError(f"{argv[0]} is not installed") from error
    except subprocess.TimeoutExpired as error:
        raise CommandError(f"'{' '.join(argv)}' took longer than {timeout_seconds:.0f} s") from error
    if done.returncode != 0:
        output = (done.stderr or done.stdout).strip()[-2000:]
        raise CommandError(f"'{' '.join(argv)}' ended with {done.returncode}: {output}")
    return done.stdout


def succeeds(argv: Sequence[str], *, timeout_seconds: float = 60) -> bool:
    """Whether the command ends with 0."""
    return subprocess.run(argv, check=False, capture_output=True, timeout=timeout_seconds).returncode == 0
