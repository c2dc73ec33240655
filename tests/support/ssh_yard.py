"""A real SSH server on loopback that plays several machines and their power switch."""

from __future__ import annotations

import json
import shlex
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

import asyncssh

from sparewheel.api.gpu_pool import KubeadmJoin, Machine, MachinesBackend, PowerSwitch, SecretKeyRef, SshEndpoint


def new_key() -> asyncssh.SSHKey:
    return asyncssh.generate_private_key("ssh-ed25519")  # pyright: ignore[reportUnknownMemberType]  # **kwargs untyped


@dataclass
class SshMachine:
    name: str
    on: bool = True
    labels: dict[str, str] = field(default_factory=dict[str, str])
    taints: list[str] = field(default_factory=list[str])
    node_name: str = ""
    boots: int = 1


@dataclass
class SshYard:
    """Users are machine names; the user ``power`` is the switch."""

    port: int
    host_key: str
    client_key: str
    machines: dict[str, SshMachine]
    broken: str = ""
    """When set, every command fails with this on standard error."""
    hang: bool = False
    commands: list[tuple[str, str]] = field(default_factory=list[tuple[str, str]])
    documents: list[str] = field(default_factory=list[str])
    """What kubeadm read on the machines."""

    def endpoint(self, user: str) -> SshEndpoint:
        return SshEndpoint(address="127.0.0.1", port=self.port, user=user, host_key=self.host_key)

    def backend(
        self, *, power: bool = True, timeout_seconds: float = 10.0, kubeadm: KubeadmJoin | None = None
    ) -> MachinesBackend:
        reference = SecretKeyRef(name="keys", key="ssh")
        return MachinesBackend(
            key_ref=reference,
            machines=[Machine(name=name, ssh=self.endpoint(name)) for name in self.machines],
            power=PowerSwitch(ssh=self.endpoint("power"), key_ref=reference) if power else None,
            timeout_seconds=timeout_seconds,
            kubeadm=kubeadm,
        )

    async def serve(self, process: asyncssh.SSHServerProcess[str]) -> None:
        user, command = str(process.get_extra_info("username")), process.command or ""
        self.commands.append((user, command))
        if self.hang:
            await process.stdin.read()
            await process.wait_closed()
        words = shlex.split(command)
        if self.broken:
            process.stderr.write(f"first line\n{self.broken}\n\n")
            process.exit(3)
        elif user == "power":
            self._power(process, words)
        else:
            await self._machine(process, self.machines[user], words)

    def _power(self, process: asyncssh.SSHServerProcess[str], words: list[str]) -> None:
        machine = self.machines[words[1]]
        if words[0] == "on" and not machine.on:
            machine.on, machine.boots = True, machine.boots + 1
        elif words[0] == "off":
            machine.on, machine.node_name = False, ""
        process.stdout.write("on\n" if machine.on else "off\n")
        process.exit(0)

    async def _kubeadm_join(self, process: asyncssh.SSHServerProcess[str], machine: SshMachine) -> None:
        self.documents.append(await process.stdin.read())
        node = json.loads(self.documents[-1])["nodeRegistration"]
        arguments = {one["name"]: one["value"] for one in node["kubeletExtraArgs"]}
        machine.node_name = node["name"]
        machine.labels = dict(pair.split("=", 1) for pair in arguments["node-labels"].split(","))
        machine.taints = [f"{one['key']}={one['value']}:{one['effect']}" for one in node["taints"]]
        process.exit(0)

    async def _machine(self, process: asyncssh.SSHServerProcess[str], machine: SshMachine, words: list[str]) -> None:
        if not machine.on:
            process.stderr.write("no route to host\n")
            process.exit(255)
            return
        match words[2:] if words[:2] == ["sudo", "-n"] else words:
            case ["host-join", "--node-name", node, *options]:
                pairs = list(zip(options[::2], options[1::2], strict=True))
                machine.node_name = node
                machine.labels = dict(value.split("=", 1) for option, value in pairs if option == "--label")
                machine.taints = [value for option, value in pairs if option == "--taint"]
                process.exit(0)
            case ["sh", "-c", _, "kubeadm_host", "join", *_]:
                await self._kubeadm_join(process, machine)
            case ["sh", "-c", _, "kubeadm_host", "leave", *_] | ["host-leave"]:
                machine.node_name, machine.labels, machine.taints = "", {}, []
                process.exit(0)
            case _:
                process.stderr.write(f"unknown command {words}\n")
                process.exit(127)


class _Server(asyncssh.SSHServer):
    def begin_auth(self, username: str) -> bool:
        return True

    def password_auth_supported(self) -> bool:
        return False


@asynccontextmanager
async def ssh_yard(*names: str) -> AsyncGenerator[SshYard, None]:
    host_key = new_key()
    client_key = new_key()
    allowed = asyncssh.import_authorized_keys(client_key.export_public_key().decode())
    yard = SshYard(
        port=0,
        host_key=host_key.export_public_key().decode(),
        client_key=client_key.export_private_key().decode(),
        machines={name: SshMachine(name) for name in names},
    )
    server = await asyncssh.create_server(
        _Server,
        "127.0.0.1",
        0,
        server_host_keys=[host_key],
        authorized_client_keys=allowed,
        process_factory=yard.serve,
    )
    yard.port = server.get_port()
    try:
        yield yard
    finally:
        server.close()
        await server.wait_closed()
