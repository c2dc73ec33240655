"""Run a command on this machine."""

from __future__ import annotations

import os
import signal
import subprocess
import threading
from typing import IO

from lab.toolchain.command_plugin.execution import CommandError, Invocation, Log, Result, failed


class LocalRunner:
    """Runs commands and ends those that still run when the engine cancels."""

    def __init__(self) -> None:
        self._running: set[subprocess.Popen[str]] = set()
        self._lock = threading.Lock()
        self._cancelled = False

    def run(self, invocation: Invocation, log: Log) -> Result:
        """Run to the end; raises CommandError for a non-zero exit."""
        process = self._start(invocation)
        try:
            stdout, stderr = _converse(process, invocation.stdin, log)
        finally:
            with self._lock:
                self._running.discard(process)
        code = process.returncode
        if code != 0:
            how = f"exit status {code}" if code > 0 else f"signal {signal.Signals(-code).name}"
            raise failed(invocation, how, stdout, stderr)
        return Result.of(stdout, stderr)

    def cancel(self) -> None:
        """End every command with its children, and start no more."""
        with self._lock:
            self._cancelled = True
            for process in self._running:
                if process.poll() is None:
                    os.killpg(process.pid, signal.SIGKILL)

    def _start(self, invocation: Invocation) -> subprocess.Popen[str]:
        with self._lock:
            if self._cancelled:
                raise CommandError(f"not run because the update was cancelled: {invocation.text!r}")
            try:
                process = subprocess.Popen(
                    [*invocation.interpreter, invocation.text],
                    cwd=invocation.folder,
                    env={**os.environ, **invocation.variables()},
                    stdin=subprocess.PIPE if invocation.stdin is not None else subprocess.DEVNULL,
                    stdout=subprocess.PIPE,
                    stderr=subprocess.PIPE,
                    text=True,
                    errors="replace",
                    start_new_session=True,
                )
            except OSError as error:
                raise CommandError(f"{error.strerror} ({error.filename}): running {invocation.text!r}") from None
            self._running.add(process)
            return process


def _converse(process: subprocess.Popen[str], stdin: str | None, log: Log) -> tuple[str, str]:
    """Feed standard input and collect both streams, telling each line as it comes."""
    assert process.stdout is not None
    assert process.stderr is not None
    collected: dict[str, list[str]] = {"stdout": [], "stderr": []}

    def follow(name: str, stream: IO[str]) -> None:
        for line in stream:
            collected[name].append(line)
            log(name, line.rstrip("\n"))

    threads = [
        threading.Thread(target=follow, args=arguments, daemon=True)
        for arguments in (("stdout", process.stdout), ("stderr", process.stderr))
    ]
    for thread in threads:
        thread.start()
    if process.stdin is not None:
        try:
            process.stdin.write(stdin or "")
            process.stdin.close()
        except BrokenPipeError:
            pass  # a command needn't read what it is given
    for thread in threads:
        thread.join()
    process.wait()
    return "".join(collected["stdout"]), "".join(collected["stderr"])
