"""A small SSH server for tests: runs commands in a shell and takes files, on a free loopback port."""

from __future__ import annotations

import asyncio
import os
import threading
from types import TracebackType
from typing import Self

import asyncssh


class _Forwarding(asyncssh.SSHServer):
    """A bastion: any connection onwards is allowed."""

    def connection_requested(self, dest_host: str, dest_port: int, orig_host: str, orig_port: int) -> bool:
        return True


class SshServer:
    """Runs in a thread; one host key, one user key, and a log of the commands that came in."""

    def __init__(self) -> None:
        self.host_key = asyncssh.generate_private_key("ssh-ed25519")  # pyright: ignore[reportUnknownMemberType]
        self.user_key = asyncssh.generate_private_key("ssh-ed25519")  # pyright: ignore[reportUnknownMemberType]
        self.commands: list[str] = []
        self.port = 0
        self._loop = asyncio.new_event_loop()
        self._ready = threading.Event()
        self._thread = threading.Thread(target=self._serve, daemon=True)

    @property
    def host_key_line(self) -> str:
        """The host's public key as one line."""
        return self.host_key.export_public_key().decode().strip()

    @property
    def user_key_text(self) -> str:
        """The user's private key, as a program gives it to a connection."""
        return self.user_key.export_private_key().decode()

    def __enter__(self) -> Self:
        self._thread.start()
        assert self._ready.wait(10), "the SSH server for the test didn't start"
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(10)

    def _serve(self) -> None:
        asyncio.set_event_loop(self._loop)
        self._loop.run_until_complete(self._listen())
        self._loop.run_forever()

    async def _listen(self) -> None:
        keys = asyncssh.import_authorized_keys(self.user_key.export_public_key().decode())
        acceptor = await asyncssh.listen(
            "127.0.0.1",
            0,
            server_factory=_Forwarding,
            server_host_keys=[self.host_key],
            authorized_client_keys=keys,
            process_factory=self._handle,
            sftp_factory=True,
        )
        self.port = acceptor.get_port()
        self._ready.set()

    async def _handle(self, process: asyncssh.SSHServerProcess[str]) -> None:
        command = process.command or ""
        self.commands.append(command)
        child = await asyncio.create_subprocess_shell(
            command,
            env={**os.environ, **process.env},
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
        )
        given = await process.stdin.read()
        stdout, stderr = await child.communicate(given.encode())
        process.stdout.write(stdout.decode())
        process.stderr.write(stderr.decode())
        process.exit(child.returncode or 0)
