"""The four tokens: their inputs, what is wrong with a set of inputs, and how each is carried out."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, cast

from lab.toolchain.command_plugin.execution import CommandError, Invocation, Log, Result
from lab.toolchain.command_plugin.local import LocalRunner
from lab.toolchain.command_plugin.wire import UNKNOWN, Properties, Secret, is_secret, reveal, source_of

LOCAL_COMMAND = "command:local:Command"
REMOTE_COMMAND = "command:remote:Command"
COPY_TO_REMOTE = "command:remote:CopyToRemote"
LOCAL_RUN = "command:local:run"

_COMMAND = {"addPreviousOutputInEnv", "create", "delete", "environment", "logging", "stdin", "triggers", "update"}
_LOCAL = {"dir", "interpreter"}
INPUTS: dict[str, set[str]] = {
    LOCAL_COMMAND: _COMMAND | _LOCAL,
    REMOTE_COMMAND: _COMMAND | {"connection"},
    COPY_TO_REMOTE: {"connection", "remotePath", "source", "triggers"},
}
_REQUIRED = {
    LOCAL_COMMAND: set[str](),
    REMOTE_COMMAND: {"connection"},
    COPY_TO_REMOTE: INPUTS[COPY_TO_REMOTE] - {"triggers"},
}
_SHOWN = {
    "stdout": {"stdout"},
    "stderr": {"stderr"},
    "stdoutAndStderr": {"stdout", "stderr"},
    "none": set[str](),
}
_SPREADS_SECRECY = ("create", "update", "delete", "stdin", "environment", "interpreter", "dir")
"""Inputs that a command may print: where one is a secret, so is what it printed."""


def problems(kind: str, inputs: Properties) -> list[tuple[str, str]]:
    """What is wrong with the inputs, as pairs of a property and a reason."""
    found = [(name, f"{kind} needs `{name}`") for name in sorted(_REQUIRED[kind]) if name not in inputs]
    for name in sorted(set(inputs) - INPUTS[kind]):
        if name in ("assetPaths", "archivePaths"):
            found.append((name, f"`{name}` isn't served by the stand-in for pulumi-command; use the official plugin"))
        else:
            found.append((name, f"{kind} has no property `{name}`"))
    logging = reveal(inputs.get("logging", "stdoutAndStderr"))
    if logging != UNKNOWN and logging not in _SHOWN:
        found.append(("logging", f"`logging` is {logging!r} and must be one of {', '.join(_SHOWN)}"))
    if kind == COPY_TO_REMOTE and "source" in inputs:
        value = reveal(inputs["source"])
        source = source_of(value)
        if value != UNKNOWN and (source is None or source.path is None):
            found.append(("source", "`source` must be a file asset or a file archive, by a path on this machine"))
    return found


def run_create(kind: str, inputs: Properties, runner: LocalRunner, log: Log) -> Properties:
    """Carry out the creation and return the outputs."""
    if kind == COPY_TO_REMOTE:
        _copy(inputs)
        return dict(inputs)
    return _outputs(inputs, _run(kind, inputs, _text(inputs, "create"), None, runner, log))


def run_update(kind: str, olds: Properties, inputs: Properties, runner: LocalRunner, log: Log) -> Properties:
    """Carry out an update: `update`, or `create` again where there is none."""
    if kind == COPY_TO_REMOTE:
        _copy(inputs)
        return dict(inputs)
    text = _text(inputs, "update") or _text(inputs, "create")
    return _outputs(inputs, _run(kind, inputs, text, olds, runner, log))


def run_delete(kind: str, olds: Properties, runner: LocalRunner, log: Log) -> None:
    """Run `delete` where there is one; what was copied stays."""
    text = None if kind == COPY_TO_REMOTE else _text(olds, "delete")
    if text is not None:
        _run(kind, olds, text, olds, runner, log)


def run_function(inputs: Properties, runner: LocalRunner, log: Log) -> Properties:
    """`local.run`: a command on every execution of the program."""
    text = _text(inputs, "command")
    if text is None:
        raise CommandError(f"{LOCAL_RUN} needs `command`.")
    return _outputs(inputs, _run(LOCAL_COMMAND, inputs, text, None, runner, log))


def planned(kind: str, inputs: Properties) -> Properties:
    """The outputs as a preview knows them: what a command will print isn't known."""
    return dict(inputs) if kind == COPY_TO_REMOTE else {**inputs, "stdout": UNKNOWN, "stderr": UNKNOWN}


def _run(
    kind: str, inputs: Properties, text: str | None, olds: Properties | None, runner: LocalRunner, log: Log
) -> Result | None:
    if text is None:
        return None
    plain = cast("Properties", reveal(inputs))
    shown = _SHOWN[plain.get("logging", "stdoutAndStderr")]
    if any(is_secret(inputs.get(name)) for name in _SPREADS_SECRECY):
        shown = set[str]()  # never to the screen what may hold a secret
    environment = cast("dict[str, Any]", plain.get("environment") or {})
    given = plain.get("addPreviousOutputInEnv", True)
    invocation = Invocation(
        text=text,
        interpreter=tuple(plain.get("interpreter") or ("/bin/sh", "-c")),
        folder=plain.get("dir"),
        environment={str(name): str(value) for name, value in environment.items()},
        stdin=plain.get("stdin"),
        previous=_previous(olds) if given and olds is not None else None,
    )
    tell = _only(shown, log)
    if kind == LOCAL_COMMAND:
        return runner.run(invocation, tell)
    from lab.toolchain.command_plugin import remote

    return remote.run(remote.Connection.read(plain["connection"]), invocation, tell)


def _copy(inputs: Properties) -> None:
    from lab.toolchain.command_plugin import remote

    plain = cast("Properties", reveal(inputs))
    source = source_of(plain["source"])
    assert source is not None
    assert source.path is not None
    path = Path(source.path)
    if not path.exists():
        raise CommandError(f"the source {path} doesn't exist; a relative path starts at the Pulumi program's folder.")
    connection = remote.Connection.read(plain["connection"])
    remote.copy(connection, path, str(plain["remotePath"]), folder=path.is_dir())


def _outputs(inputs: Properties, result: Result | None) -> Properties:
    stdout, stderr = ("", "") if result is None else (result.stdout, result.stderr)
    if any(is_secret(inputs.get(name)) for name in _SPREADS_SECRECY):
        return {**inputs, "stdout": Secret(stdout), "stderr": Secret(stderr)}
    return {**inputs, "stdout": stdout, "stderr": stderr}


def _previous(olds: Properties) -> tuple[str, str]:
    return str(reveal(olds.get("stdout", ""))), str(reveal(olds.get("stderr", "")))


def _text(properties: Properties, name: str) -> str | None:
    value: Any = reveal(properties.get(name))
    return None if value is None else str(value)


def _only(shown: set[str], log: Log) -> Callable[[str, str], None]:
    def tell(stream: str, line: str) -> None:
        if stream in shown:
            log(stream, line)

    return tell
