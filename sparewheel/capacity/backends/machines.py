"""Backend ``machines``: an inventory reached by SSH, with a power switch reached by SSH. What bare metal uses."""

from __future__ import annotations

import asyncio
import logging
import shlex
from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Final

import asyncssh

from sparewheel.api.gpu_pool import KubeadmJoin, Machine, MachinesBackend, SshEndpoint
from sparewheel.capacity.backends.command_words import HIDDEN, program, redact
from sparewheel.capacity.backends.kubeadm import Door, join_command, join_document, leave_command
from sparewheel.capacity.port import (
    CapacityError,
    Inventory,
    JoinRequest,
    Proof,
    UnreachableError,
)

log = logging.getLogger("sparewheel.capacity")
CONNECT_SECONDS: Final = 10.0

logging.getLogger("asyncssh").setLevel(logging.WARNING)  # below that it logs commands in full


class CommandFailedError(CapacityError):
    """The machine was reached and its command ended non-zero."""


@dataclass(frozen=True, slots=True)
class MachinesProvider:
    """``host_key`` and ``power_key`` are private keys as text (OpenSSH or PEM)."""

    backend: MachinesBackend
    host_key: str
    power_key: str = ""
    open_door: Callable[[], Awaitable[Door]] | None = None
    """Into the cluster, for one host that joins by kubeadm."""

    @property
    def keeps_node(self) -> bool:
        return False

    async def list_hosts(self) -> list[Inventory]:
        return [
            Inventory(
                machine.name,
                f"machines://{machine.name}",
                machine.instance_type,
                machine.fabric_block,
                machine.nvlink_domain,
                machine.resources,
            )
            for machine in self.backend.machines
        ]

    async def other_healer(self) -> str:
        return ""

    async def find_more(self, lacking: int) -> str:
        """The inventory is all there is."""
        del lacking
        return ""

    async def power_on(self, host: str) -> None:
        self._machine(host)
        if self.backend.power is not None:
            await self._switch(host, self.backend.power.on_command)

    async def join(self, request: JoinRequest) -> None:
        if self.backend.kubeadm is not None:
            await self._join_by_kubeadm(request, self.backend.kubeadm)
            return
        labels = " ".join(f"--label {shlex.quote(f'{key}={value}')}" for key, value in sorted(request.labels.items()))
        taints = " ".join(
            f"--taint {shlex.quote(f'{taint.key}={taint.value}:{taint.effect}')}" for taint in request.taints
        )
        filled = {"node": shlex.quote(request.node_name), "labels": labels, "taints": taints}
        await self._on_machine(request.host, self.backend.join_command, filled)

    async def prove_off(self, host: str, *, power_off: bool) -> Proof:
        self._machine(host)
        power = self.backend.power
        if power is None:
            return Proof.UNKNOWN
        try:
            if power_off:
                await self._switch(host, power.off_command)
            answer = await self._switch(host, power.status_command)
        except CapacityError as error:
            log.warning("power of %s is not known: %s", host, error)
            return Proof.UNKNOWN
        return {"off": Proof.OFF, "on": Proof.ON}.get(answer.strip().lower(), Proof.UNKNOWN)

    async def reboot(self, host: str) -> None:
        self._machine(host)
        power = self.backend.power
        if power is None:
            raise CapacityError(f"machine {host} can't be rebooted: its pool has no power switch; add backend.power")
        await self._switch(host, power.off_command)
        await self._switch(host, power.on_command)

    async def _join_by_kubeadm(self, request: JoinRequest, settings: KubeadmJoin) -> None:
        machine = self._machine(request.host)
        if self.open_door is None:
            raise CapacityError(f"machine {request.host}: nothing here can make a token for it; this is a bug")
        door = await self.open_door()
        words = join_command(request, door, settings, self.backend.timeout_seconds, machine.ssh.user)
        given = _Given("'kubeadm join'", join_document(request, door, settings), door.token)
        await self._run(f"machine {request.host}", machine.ssh, self.host_key, words, given)

    async def leave(self, host: str) -> None:
        if self.backend.kubeadm is not None:
            machine = self._machine(host)
            words = leave_command(self.backend.kubeadm, self.backend.timeout_seconds, machine.ssh.user)
            await self._run(f"machine {host}", machine.ssh, self.host_key, words, _Given("'kubeadm reset'"))
            return
        await self._on_machine(host, self.backend.leave_command, {})

    async def quarantine(self, host: str, reason: str) -> None:
        """A machine that left is out of reach of work already; it stays powered so that it can be looked at."""
        self._machine(host)
        log.info("machine %s is quarantined: %s", host, reason)

    async def release(self, host: str) -> None:
        await self.leave(host)

    def _machine(self, host: str) -> Machine:
        for machine in self.backend.machines:
            if machine.name == host:
                return machine
        raise CapacityError(f"machine {host} is not in the pool's inventory; add it to backend.machines")

    async def _on_machine(self, host: str, command: str, filled: Mapping[str, str]) -> str:
        machine = self._machine(host)
        text = _fill(command, {**filled, "host": shlex.quote(host)})
        return await self._run(
            f"machine {host}", machine.ssh, self.host_key, text, _Given(program(command), of=command)
        )

    async def _switch(self, host: str, command: str) -> str:
        power = self.backend.power
        if power is None:
            raise CapacityError(f"machine {host}: its pool has no power switch; add backend.power")
        text = _fill(command, {"host": shlex.quote(host)})
        given = _Given(program(command), of=command)
        return await self._run(f"power switch for machine {host}", power.ssh, self.power_key, text, given)

    async def _run(self, who: str, endpoint: SshEndpoint, key: str, command: str, given: _Given) -> str:
        """Standard output of the command. Everything that can go wrong is told apart and names the machine.

        Errors name the program alone: the rest of the command may hold a token.
        """
        place = f"{who} ({endpoint.user}@{endpoint.address}:{endpoint.port})"
        seconds = self.backend.timeout_seconds
        try:
            async with asyncio.timeout(seconds):
                result = await _result(await _connect(place, endpoint, key), command, given.stdin)
        except TimeoutError as error:
            raise UnreachableError(
                f"{place} did not finish {given.program} within {seconds:g} s; look at the machine"
            ) from error
        except (asyncssh.Error, OSError) as error:
            raise UnreachableError(f"{place}: connection lost during {given.program}: {_cause(error)}") from error
        if result.exit_status != 0:
            lines = [line for line in _text(result.stderr).splitlines() if line.strip()]
            last = lines[-1].strip() if lines else "nothing on standard error"
            ended = f"exit status {result.exit_status}" if result.exit_status is not None else "a signal"
            raise CommandFailedError(f"{place}: {given.program} failed with {ended}: {given.hide(last)}")
        return _text(result.stdout)


@dataclass(frozen=True, slots=True)
class _Given:
    """What a command is called in errors, what it reads, and what must be in no error."""

    program: str
    stdin: str | None = field(default=None, repr=False)
    secret: str = field(default="", repr=False)
    of: str = ""
    """The command as the stack wrote it."""

    def hide(self, text: str) -> str:
        text = redact(text, self.of) if self.of else text
        return text.replace(self.secret, HIDDEN) if self.secret else text


async def _result(
    connection: asyncssh.SSHClientConnection, command: str, stdin: str | None
) -> asyncssh.SSHCompletedProcess:
    try:
        process = await connection.create_process(command)
        if stdin is not None:
            with suppress(BrokenPipeError):  # one that ended before it read says why
                process.stdin.write(stdin)
                process.stdin.write_eof()
        return await process.wait(check=False)
    finally:
        connection.abort()


async def _connect(place: str, endpoint: SshEndpoint, key: str) -> asyncssh.SSHClientConnection:
    try:
        known = asyncssh.import_public_key(endpoint.host_key)
    except asyncssh.KeyImportError as error:
        raise CapacityError(f"{place}: hostKey is no OpenSSH public key: {error}; take it from the machine") from error
    try:
        private = asyncssh.import_private_key(key)
    except (asyncssh.KeyImportError, asyncssh.KeyEncryptionError) as error:
        raise CapacityError(f"{place}: the private key can't be used: {error}; check the Secret in keyRef") from error
    try:
        return await asyncssh.connect(
            endpoint.address,
            endpoint.port,
            username=endpoint.user,
            client_keys=[private],
            known_hosts=([known], [], []),
            server_host_key_algs=[known.get_algorithm()] if known.get_algorithm() != "ssh-rsa" else (),
            config=None,
            agent_path=None,
            preferred_auth="publickey",
            connect_timeout=CONNECT_SECONDS,
            login_timeout=CONNECT_SECONDS,
            keepalive_interval=5,
            keepalive_count_max=3,
        )
    except asyncssh.HostKeyNotVerifiable as error:
        raise CapacityError(
            f"{place} shows another host key than the one listed; if the machine was set up anew, list its new key"
        ) from error
    except asyncssh.PermissionDenied as error:
        raise CapacityError(f"{place} refuses the key; put its public half into authorized_keys there") from error
    except asyncssh.KeyExchangeFailed as error:
        raise CapacityError(
            f"{place} has no host key of the listed kind; list the key that it has ({error.reason})"
        ) from error
    except (TimeoutError, asyncssh.Error, OSError) as error:
        raise UnreachableError(f"{place} can't be reached: {_cause(error)}; is it on?") from error


def _fill(command: str, values: Mapping[str, str]) -> str:
    """Put values for ``{name}`` into a command; other braces stay as they are, they are the shell's."""
    for name, value in values.items():
        command = command.replace(f"{{{name}}}", value)
    return command.strip()


def _text(value: bytes | str | None) -> str:
    return value.decode(errors="replace") if isinstance(value, bytes) else value or ""


def _cause(error: Exception) -> str:
    if isinstance(error, asyncssh.Error):
        return error.reason or type(error).__name__
    if isinstance(error, TimeoutError):
        return f"no answer within {CONNECT_SECONDS:g} s"
    return str(error) or type(error).__name__
