"""Run a command, or copy files, on another machine over SSH."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

import asyncssh

from lab.toolchain.command_plugin.execution import CommandError, Invocation, Log, Result, failed

FIRST_DELAY_SECONDS = 0.1
DELAY_FACTOR = 1.5
LONGEST_DELAY_SECONDS = 5.0


@dataclass(frozen=True)
class Connection:
    """How to reach a machine; the names are those of pulumi-command's `connection`.

    dial_error_limit: failed dials before it gives up; -1: never. per_dial_timeout_seconds: 0 for no limit.
    host_key: one line as in a public key file; without it any host key is taken.
    """

    host: str
    port: int
    user: str
    password: str | None
    private_key: str | None
    private_key_password: str | None
    agent_socket_path: str | None
    host_key: str | None
    dial_error_limit: int
    per_dial_timeout_seconds: int
    proxy: Connection | None = None

    @classmethod
    def read(cls, fields: dict[str, Any]) -> Connection:
        """From the resource's revealed `connection`."""
        proxy = cast("dict[str, Any] | None", fields.get("proxy"))
        return cls(
            host=str(fields["host"]),
            port=int(fields.get("port", 22)),
            user=str(fields.get("user", "root")),
            password=fields.get("password"),
            private_key=fields.get("privateKey"),
            private_key_password=fields.get("privateKeyPassword"),
            agent_socket_path=fields.get("agentSocketPath"),
            host_key=fields.get("hostKey"),
            dial_error_limit=int(fields.get("dialErrorLimit", 10)),
            per_dial_timeout_seconds=int(fields.get("perDialTimeout", 15)),
            proxy=None if proxy is None else cls.read(proxy),
        )

    def __str__(self) -> str:
        return f"{self.user}@{self.host}:{self.port}"


def run(connection: Connection, invocation: Invocation, log: Log) -> Result:
    """Run a command to its end; raises CommandError for a non-zero exit or a machine that can't be reached."""
    return asyncio.run(_run(connection, invocation, log))


def copy(connection: Connection, source: Path, target: str, *, folder: bool) -> None:
    """Copy a file or a folder; into `target` where that is a folder, else to that very name."""
    asyncio.run(_copy(connection, source, target, folder=folder))


async def _run(connection: Connection, invocation: Invocation, log: Log) -> Result:
    async with _connected(connection, log) as ssh:
        process = await ssh.create_process(
            invocation.text, env=invocation.variables(), encoding="utf-8", errors="replace"
        )
        try:
            if invocation.stdin is not None:
                process.stdin.write(invocation.stdin)
            process.stdin.write_eof()
        except (BrokenPipeError, ConnectionError):
            pass  # a command needn't read what it is given
        stdout, stderr = await asyncio.gather(
            _follow("stdout", process.stdout, log), _follow("stderr", process.stderr, log)
        )
        done = await process.wait(check=False)
        if done.exit_status != 0:
            how = (
                f"signal {done.exit_signal[0]}"
                if done.exit_signal
                else f"Process exited with status {done.exit_status}"
            )
            raise failed(invocation, f"{how} on {connection}", stdout, stderr)
        return Result.of(stdout, stderr)


async def _follow(name: str, stream: asyncssh.SSHReader[str], log: Log) -> str:
    collected: list[str] = []
    async for line in stream:
        collected.append(line)
        log(name, line.rstrip("\n"))
    return "".join(collected)


async def _copy(connection: Connection, source: Path, target: str, *, folder: bool) -> None:
    def quiet(_stream: str, _line: str) -> None:
        return

    async with _connected(connection, quiet) as ssh:
        try:
            async with ssh.start_sftp_client() as sftp:
                if folder and await sftp.isfile(target):
                    raise CommandError(f"{target} on {connection} is a file and can't take the folder {source}.")
                await sftp.put(str(source), target, recurse=folder)
        except (OSError, asyncssh.SFTPError) as error:
            raise CommandError(f"copying {source} to {target} on {connection} failed: {error}") from None


@asynccontextmanager
async def _connected(connection: Connection, log: Log) -> AsyncGenerator[asyncssh.SSHClientConnection]:
    async with AsyncExitStack() as stack:
        tunnel: asyncssh.SSHClientConnection | None = None
        if connection.proxy is not None:
            tunnel = await stack.enter_async_context(await _dial(connection.proxy, None, log))
        yield await stack.enter_async_context(await _dial(connection, tunnel, log))


async def _dial(
    connection: Connection, tunnel: asyncssh.SSHClientConnection | None, log: Log
) -> asyncssh.SSHClientConnection:
    """Connect, trying again after a failure up to the limit; a wrong host key ends it at once."""
    options = _options(connection)
    failures = 0
    delay = FIRST_DELAY_SECONDS
    while True:
        try:
            return await asyncssh.connect(connection.host, connection.port, tunnel=tunnel or (), **options)
        except asyncssh.HostKeyNotVerifiable:
            raise CommandError(
                f"{connection} doesn't have the host key that `hostKey` names: check that it is the machine you mean."
            ) from None
        except (OSError, asyncssh.Error, TimeoutError) as error:
            failures += 1
            if 0 <= connection.dial_error_limit <= failures:
                raise CommandError(
                    f"after {failures} failed dial attempts: {connection} couldn't be reached: {error or 'time-out'}. "
                    "Check the address, the port, the user and the key."
                ) from None
            log("stderr", f"dialing {connection} failed ({failures}): {error or 'time-out'}; trying again")
        await asyncio.sleep(delay)
        delay = min(delay * DELAY_FACTOR, LONGEST_DELAY_SECONDS)


def _options(connection: Connection) -> dict[str, Any]:
    """What asyncssh needs; nothing is read from this user's own SSH files, except the agent where one is there."""
    options: dict[str, Any] = {
        "username": connection.user,
        "known_hosts": None,
        "config": None,
        "connect_timeout": connection.per_dial_timeout_seconds or None,
        "login_timeout": connection.per_dial_timeout_seconds,
        "preferred_auth": "publickey,keyboard-interactive,password",
    }
    try:
        if connection.host_key:
            key = asyncssh.import_public_key(connection.host_key)
            options["known_hosts"] = ([key], [], [])
        if connection.private_key:
            options["client_keys"] = [
                asyncssh.import_private_key(connection.private_key, connection.private_key_password)
            ]
        else:
            options["client_keys"] = None if connection.password else ()
    except (asyncssh.KeyImportError, asyncssh.KeyEncryptionError) as error:
        raise CommandError(f"the key given for {connection} can't be read: {error}. Check the connection.") from None
    if connection.password:
        options["password"] = connection.password
    if connection.agent_socket_path:
        options["agent_path"] = connection.agent_socket_path
    return options
